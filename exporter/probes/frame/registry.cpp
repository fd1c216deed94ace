#include "exporter/probes/frame/registry.h"

#include "exporter/probes/cuda/probe.h"
#include "exporter/probes/fence/probe.h"
#include "exporter/probes/frame/target_processes.h"
#include "exporter/probes/functions/probe.h"
#include "exporter/probes/nvlink/probe.h"
#include "exporter/probes/pcie/probe.h"
#include "exporter/probes/syscall/probe.h"

namespace gpusnoop::probes {

namespace {

using Make = std::unique_ptr<Probe> (*)(const config::Config &, const ebpf::Features &,
                                        const TargetProcessesPtr &);

// For a probe that does not ask whom to trace.
template <auto make>
std::unique_ptr<Probe> of_all(const config::Config &config, const ebpf::Features &features,
                              const TargetProcessesPtr & /*targets*/) {
    return make(config, features);
}

// One line per probe. A probe that the configuration switches off makes none. They are started in
// this order: the CUDA probe has the table of GPU processes that others ask.
constexpr Make all_probes[] = {
    make_cuda, of_all<make_func>, of_all<make_pcie>, of_all<make_nvlink>, make_syscall, make_fence,
};

}  // namespace

std::vector<std::unique_ptr<Probe>> make_probes(const config::Config &config,
                                                const ebpf::Features &features) {
    std::vector<std::unique_ptr<Probe>> probes;
    const auto targets =
        std::make_shared<TargetProcesses>(config.targets, config.discovery.rescan_interval);
    for (const Make make : all_probes) {
        if (auto probe = make(config, features, targets)) {
            probes.push_back(std::move(probe));
        }
    }
    return probes;
}

}  // namespace gpusnoop::probes
