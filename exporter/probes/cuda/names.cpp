#include "exporter/probes/cuda/names.h"

namespace gpusnoop::probes {

Result<CudaNames> CudaNames::start(PythonTables python) {
    auto kernels = symbols::CudaKernelResolver::start();
    if (!kernels) {
        return tl::unexpected(kernels.error());
    }
    auto sites = PythonSites::start(std::move(python));
    if (!sites) {
        return tl::unexpected(sites.error());
    }
    return CudaNames(std::move(*kernels), std::move(*sites));
}

void CudaNames::ask_for_kernel(symbols::CudaKernelRequest request, const CudaTables &tables) {
    request.name_pointer = tables.registered_name(request.executable.tgid, request.address);
    kernels_->ask(std::move(request));
}

void CudaNames::ask_for_site(std::uint64_t ticket, const ProcessKey &process,
                             std::uint64_t code_start, const Site &site, const CudaTables &tables) {
    sites_.ask({.ticket = ticket,
                .tgid = process.tgid,
                .addresses = tables.addresses_of(site),
                .code_start = code_start},
               process, site.python);
}

void CudaNames::hand_answers_to(CudaAggregator &aggregator) {
    for (const symbols::CudaKernelReply &answer : kernels_->answers()) {
        aggregator.on_kernel_name(answer);
    }
    sites_.hand_answers_to(
        [&](symbols::StackReply answer) { aggregator.on_site_name(std::move(answer)); });
}

}  // namespace gpusnoop::probes
