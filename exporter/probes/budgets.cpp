#include "exporter/probes/budgets.h"

#include "exporter/probes/cuda_families.h"

namespace gpusnoop::probes {

std::vector<series::Family> budgeted() {
    const Budget any = [](std::string_view) { return 1U; };
    CudaFamilies families = make_cuda_families(any, false);
    CudaGauges gauges = make_cuda_gauges(any);
    std::vector<series::Family> all;
    for (series::Family *family : families.all()) {
        all.push_back(std::move(*family));
    }
    for (series::Family *family : gauges.all()) {
        all.push_back(std::move(*family));
    }
    return all;
}

std::vector<std::string> budgeted_families() {
    std::vector<std::string> names;
    for (const series::Family &family : budgeted()) {
        names.push_back(family.description().name);
    }
    return names;
}

}  // namespace gpusnoop::probes
