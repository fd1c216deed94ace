#include "exporter/probes/cuda/names.h"

namespace gpusnoop::probes {

Result<CudaNames> CudaNames::start() {
    auto kernels = symbols::CudaKernelResolver::start();
    if (!kernels) {
        return tl::unexpected(kernels.error());
    }
    auto stacks = symbols::StackResolver::start();
    if (!stacks) {
        return tl::unexpected(stacks.error());
    }
    return CudaNames(std::move(*kernels), std::move(*stacks));
}

void CudaNames::ask_for_kernel(symbols::CudaKernelRequest request, const CudaTables &tables) {
    request.name_pointer = tables.registered_name(request.executable.tgid, request.address);
    kernels_->ask(std::move(request));
}

void CudaNames::ask_for_site(std::uint64_t ticket, std::uint32_t tgid, std::uint64_t code_start,
                             const Site &site, const CudaTables &tables) {
    stacks_->ask({ticket, tgid, tables.addresses_of(site), code_start});
}

void CudaNames::hand_answers_to(CudaAggregator &aggregator) {
    for (const symbols::CudaKernelReply &answer : kernels_->answers()) {
        aggregator.on_kernel_name(answer);
    }
    for (symbols::StackReply &answer : stacks_->answers()) {
        aggregator.on_site_name(std::move(answer));
    }
}

}  // namespace gpusnoop::probes
