// Finds names for kernels and call sites, on request of the CUDA aggregator.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "exporter/base/result.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"
#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/python/sites.h"
#include "exporter/probes/frame/python/tables.h"

namespace gpusnoop::probes {

class CudaNames {
public:
    static Result<CudaNames> start(PythonTables python);

    void remember(const symbols::Executable &executable) { kernels_->remember(executable); }
    void ask_for_kernel(symbols::CudaKernelRequest request, const CudaTables &tables);
    void ask_for_site(std::uint64_t ticket, const ProcessKey &process, std::uint64_t code_start,
                      const Site &site, const CudaTables &tables);
    [[nodiscard]] PythonSites &sites() { return sites_; }
    void hand_answers_to(CudaAggregator &aggregator);

private:
    CudaNames(std::unique_ptr<symbols::CudaKernelResolver> kernels, PythonSites sites)
        : kernels_(std::move(kernels)), sites_(std::move(sites)) {}

    std::unique_ptr<symbols::CudaKernelResolver> kernels_;
    PythonSites sites_;
};

}  // namespace gpusnoop::probes
