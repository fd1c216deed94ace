#include "exporter/probes/cuda/launches/cuda_kernel_resolver.h"

#include <utility>

namespace gpusnoop::symbols {
namespace {

constexpr std::size_t max_batch = 1024;

}  // namespace

Result<std::unique_ptr<CudaKernelResolver>> CudaKernelResolver::start() {
    auto files = MappedFiles::open();
    if (!files) {
        return tl::unexpected(files.error());
    }
    return std::make_unique<CudaKernelResolver>(std::move(*files));
}

CudaKernelResolver::CudaKernelResolver(std::unique_ptr<MappedFiles> files,
                                       FileCache::Settings settings)
    : namer_(std::move(files), std::move(settings)),
      thread_(
          {.max_waiting = max_waiting, .max_batch = max_batch},
          [this](const std::vector<Question> &batch, const auto &post) {
              // First handle the requests whose process may end soon.
              for (const Question &question : batch) {
                  if (const auto *executable = std::get_if<Executable>(&question)) {
                      namer_.remember(*executable);
                  }
              }
              for (const Question &question : batch) {
                  if (const auto *request = std::get_if<CudaKernelRequest>(&question)) {
                      post({request->ticket, namer_.name(*request)});
                  }
              }
          },
          [this] { return namer_.close_unused(); }) {}

void CudaKernelResolver::remember(const Executable &executable) {
    (void)thread_.ask(executable);
}

void CudaKernelResolver::ask(CudaKernelRequest request) {
    const std::uint64_t ticket = request.ticket;
    if (!thread_.ask(std::move(request))) {
        thread_.post({ticket, ""});
    }
}

std::vector<CudaKernelReply> CudaKernelResolver::answers() {
    return thread_.answers();
}

}  // namespace gpusnoop::symbols
