// Finds names for kernels and call sites, on request of the CUDA aggregator.
#pragma once

#include <memory>

#include "exporter/base/result.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/launches/cuda_kernel_resolver.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"
#include "exporter/symbols/stacks/stack_resolver.h"

namespace gpusnoop::probes {

class CudaNames {
public:
    static Result<CudaNames> start();

    void remember(const symbols::Executable &executable) { kernels_->remember(executable); }
    void ask_for_kernel(symbols::CudaKernelRequest request, const CudaTables &tables);
    void ask_for_site(std::uint64_t ticket, std::uint32_t tgid, std::uint64_t code_start,
                      const Site &site, const CudaTables &tables);
    void hand_answers_to(CudaAggregator &aggregator);

private:
    CudaNames(std::unique_ptr<symbols::CudaKernelResolver> kernels,
              std::unique_ptr<symbols::StackResolver> stacks)
        : kernels_(std::move(kernels)), stacks_(std::move(stacks)) {}

    std::unique_ptr<symbols::CudaKernelResolver> kernels_;
    std::unique_ptr<symbols::StackResolver> stacks_;
};

}  // namespace gpusnoop::probes
