#include "exporter/probes/budgets.h"

#include <utility>

#include "exporter/probes/cuda_families.h"
#include "exporter/probes/fence_families.h"
#include "exporter/probes/func_families.h"
#include "exporter/probes/nvlink_aggregator.h"
#include "exporter/probes/pcie_aggregator.h"
#include "exporter/probes/syscall_families.h"

namespace gpusnoop::probes {

namespace {

void move_to(std::vector<series::Family> &all, const std::vector<series::Family *> &families) {
    for (series::Family *family : families) {
        all.push_back(std::move(*family));
    }
}

}  // namespace

std::vector<FamiliesOfProbe> budgeted() {
    const Budget any = [](std::string_view) { return 1U; };
    FamiliesOfProbe cuda{"CUDA", {}};
    CudaFamilies cuda_families = make_cuda_families(any, false);
    CudaGauges cuda_gauges = make_cuda_gauges(any);
    move_to(cuda.families, cuda_families.all());
    move_to(cuda.families, cuda_gauges.all());

    FamiliesOfProbe func{"Functions", {}};
    FuncFamilies func_families = make_func_families(any, false);
    FuncGauges func_gauges = make_func_gauges(any, false);
    move_to(func.families, func_families.all());
    func.families.push_back(make_func_durations(any, false, {1}));
    move_to(func.families, func_gauges.all());

    FamiliesOfProbe pcie{"PCIe configuration space", {}};
    PcieFamilies pcie_families = make_pcie_families(any, false);
    move_to(pcie.families, pcie_families.all());

    FamiliesOfProbe nvlink{"NVLink helpers of the driver", {}};
    NvlinkFamilies nvlink_families = make_nvlink_families(any, false);
    move_to(nvlink.families, nvlink_families.all());
    FamiliesOfProbe syscall{"System calls", {}};
    SyscallFamilies syscall_families = make_syscall_families(any, false);
    move_to(syscall.families, syscall_families.all());

    FamiliesOfProbe fence{"DMA fences", {}};
    FenceFamilies fence_families = make_fence_families(any, false);
    move_to(fence.families, fence_families.all());

    std::vector<FamiliesOfProbe> all;
    all.push_back(std::move(cuda));
    all.push_back(std::move(func));
    all.push_back(std::move(pcie));
    all.push_back(std::move(nvlink));
    all.push_back(std::move(syscall));
    all.push_back(std::move(fence));
    return all;
}

std::vector<std::string> budgeted_families() {
    std::vector<std::string> names;
    for (const FamiliesOfProbe &probe : budgeted()) {
        for (const series::Family &family : probe.families) {
            names.push_back(family.description().name);
        }
    }
    return names;
}

}  // namespace gpusnoop::probes
