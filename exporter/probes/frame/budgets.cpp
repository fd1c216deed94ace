#include "exporter/probes/frame/budgets.h"

#include <string_view>
#include <utility>

#include "exporter/probes/cuda/families.h"
#include "exporter/probes/fence/aggregator.h"
#include "exporter/probes/functions/count/families.h"
#include "exporter/probes/nvlink/aggregator.h"
#include "exporter/probes/pcie/aggregator.h"
#include "exporter/probes/syscall/aggregator.h"

namespace gpusnoop::probes {

namespace {

series::FamilySet empty_set(bool pid_label) {
    return {[](std::string_view) { return 1U; }, pid_label};
}

template <typename... Make>
FamiliesOfProbe families_of(std::string title, Make... make) {
    FamiliesOfProbe of{std::move(title), {}};
    series::FamilySet &set = of.sets.emplace_back(empty_set(false));
    (make(set), ...);
    return of;
}

FamiliesOfProbe families_of_cuda() {
    FamiliesOfProbe of = families_of("CUDA", make_cuda_families);
    make_cuda_gauges(of.sets.emplace_back(empty_set(true)));
    return of;
}

series::Family &durations_of_functions(series::FamilySet &set) {
    return add_func_durations(set, {1});
}

}  // namespace

std::vector<FamiliesOfProbe> budgeted() {
    std::vector<FamiliesOfProbe> all;
    all.push_back(families_of_cuda());
    all.push_back(
        families_of("Functions", make_func_families, durations_of_functions, make_func_gauges));
    all.push_back(families_of("PCIe configuration space", make_pcie_families));
    all.push_back(families_of("NVLink helpers of the driver", make_nvlink_families));
    all.push_back(families_of("System calls", make_syscall_families));
    all.push_back(families_of("DMA fences", make_fence_families));
    return all;
}

std::vector<std::string> budgeted_families() {
    std::vector<std::string> names;
    for (FamiliesOfProbe &probe : budgeted()) {
        for (series::FamilySet &set : probe.sets) {
            for (const series::Family &family : set.families()) {
                names.push_back(family.description().name);
            }
        }
    }
    return names;
}

}  // namespace gpusnoop::probes
