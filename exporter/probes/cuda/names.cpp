#include "exporter/probes/cuda/names.h"

#include "bpf/cuda/tables.h"

namespace gpusnoop::probes {

Result<CudaNames> CudaNames::start(PythonTables python) {
    auto kernels = symbols::CudaKernelResolver::start();
    if (!kernels) {
        return tl::unexpected(kernels.error());
    }
    auto sites = PythonSiteResolver::start();
    if (!sites) {
        return tl::unexpected(sites.error());
    }
    return CudaNames(std::move(*kernels), std::move(*sites), python);
}

void CudaNames::ask_for_kernel(symbols::CudaKernelRequest request, const CudaTables &tables) {
    request.name_pointer = tables.registered_name(request.executable.tgid, request.address);
    kernels_->ask(std::move(request));
}

void CudaNames::ask_for_site(std::uint64_t ticket, const ProcessKey &process,
                             std::uint64_t code_start, const Site &site, const CudaTables &tables) {
    sites_->ask({.process = process,
                 .site = symbols::StackRequest{.ticket = ticket,
                                               .tgid = process.tgid,
                                               .addresses = tables.addresses_of(site),
                                               .code_start = code_start},
                 .python = python_.stack(process, site.python),
                 .is_backward = (site.python & CUDA_PYTHON_BACKWARD) != 0});
}

void CudaNames::look_for_python(const ProcessIdentity &process) {
    looks_.try_emplace(process.key);
    if (process.exe.find("python") != process.exe.npos) {
        sites_->ask({.process = process.key, .site = {}});
    }
}

void CudaNames::rescan(const std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> &running,
                       std::chrono::nanoseconds now, const std::set<std::uint64_t> &in_use) {
    std::set<ProcessKey> still;
    for (const auto &[process, started] : running) {
        still.insert(process);
    }
    std::erase_if(looks_, [&](const auto &look) { return !still.contains(look.first); });
    for (auto &[process, look] : looks_) {
        if (++look.waited >= look.next) {
            look = {.waited = 0, .next = 2 * look.next};
            sites_->ask({.process = process, .site = {}});
        }
    }
    python_.forget_unused(now, in_use);
}

void CudaNames::hand_answers_to(CudaAggregator &aggregator) {
    for (const symbols::CudaKernelReply &answer : kernels_->answers()) {
        aggregator.on_kernel_name(answer);
    }
    for (SiteAnswer &answer : sites_->answers()) {
        if (answer.site) {
            aggregator.on_site_name(std::move(*answer.site));
        } else if (answer.python) {
            looks_.erase(answer.process);
            python_.set_interpreter(answer.process, *answer.python);
        }
    }
}

}  // namespace gpusnoop::probes
