#include "exporter/probes/registry.h"

#include "exporter/probes/cuda.h"
#include "exporter/probes/func.h"
#include "exporter/probes/nvlink.h"
#include "exporter/probes/pcie.h"

namespace gpusnoop::probes {

namespace {

using Make = std::unique_ptr<Probe> (*)(const config::Config &, const kernel::Features &);

// One line per probe. A probe that the configuration switches off makes none.
constexpr Make all_probes[] = {
    make_cuda,
    make_func,
    make_pcie,
    make_nvlink,
};

}  // namespace

std::vector<std::unique_ptr<Probe>> make_probes(const config::Config &config,
                                                const kernel::Features &features) {
    std::vector<std::unique_ptr<Probe>> probes;
    for (const Make make : all_probes) {
        if (auto probe = make(config, features)) {
            probes.push_back(std::move(probe));
        }
    }
    return probes;
}

}  // namespace gpusnoop::probes
