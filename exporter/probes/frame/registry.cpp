#include "exporter/probes/frame/registry.h"

#include "exporter/probes/cuda/probe.h"
#include "exporter/probes/fence/probe.h"
#include "exporter/probes/functions/probe.h"
#include "exporter/probes/nvlink/probe.h"
#include "exporter/probes/pcie/probe.h"
#include "exporter/probes/syscall/probe.h"

namespace gpusnoop::probes {

namespace {

constexpr const ProbeKind *kinds[] = {
    &cuda_kind, &functions_kind, &pcie_kind, &nvlink_kind, &syscall_kind, &fence_kind,
};

}  // namespace

std::span<const ProbeKind *const> all_probes() {
    return kinds;
}

std::vector<std::unique_ptr<Probe>> make_probes(const config::Config &config,
                                                const ebpf::Features &features) {
    std::vector<std::unique_ptr<Probe>> probes;
    const auto targets =
        std::make_shared<TargetProcesses>(config.targets, config.discovery.rescan_interval);
    for (const ProbeKind *const kind : kinds) {
        if (auto probe = kind->make(config, features, targets)) {
            probes.push_back(std::move(probe));
        }
    }
    return probes;
}

std::vector<std::string> budgeted_families() {
    std::vector<std::string> names;
    for (const ProbeKind *const kind : kinds) {
        for (series::FamilySet &set : kind->declare()) {
            for (const series::Family &family : set.families()) {
                names.push_back(family.description().name);
            }
        }
    }
    return names;
}

}  // namespace gpusnoop::probes
