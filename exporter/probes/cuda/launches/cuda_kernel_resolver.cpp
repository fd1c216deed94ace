#include "exporter/probes/cuda/launches/cuda_kernel_resolver.h"

#include <chrono>
#include <utility>

namespace gpusnoop::symbols {
namespace {

constexpr std::size_t max_batch = 1024;
// Of one process, before others have theirs. One question may take longer.
constexpr std::chrono::milliseconds longest_turn{100};
// No kernel's name is worth more.
constexpr std::chrono::seconds longest_for_name{2};

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
          {.max_waiting = max_waiting, .max_batch = max_batch, .longest_turn = longest_turn},
          [this](const std::vector<Question> &batch, const WorkLimit &limit, const auto &post) {
              std::size_t answered = 0;
              do {
                  const Question &question = batch[answered++];
                  if (const auto *executable = std::get_if<Executable>(&question)) {
                      namer_.remember(*executable);
                  } else if (const auto *request = std::get_if<CudaKernelRequest>(&question)) {
                      const WorkLimit of_name = WorkLimit{limit.stop}.at_most(longest_for_name);
                      post({request->ticket, namer_.name(*request, of_name)});
                  }
              } while (answered < batch.size() && !limit.is_reached());
              return answered;
          },
          [this] { return namer_.close_unused(); }) {}

void CudaKernelResolver::remember(const Executable &executable) {
    ask(executable.tgid, executable);
}

void CudaKernelResolver::ask(CudaKernelRequest request) {
    const std::uint32_t tgid = request.executable.tgid;
    ask(tgid, std::move(request));
}

void CudaKernelResolver::ask(std::uint32_t tgid, Question question) {
    const auto refused = thread_.ask(tgid, std::move(question));
    if (const auto *request = refused ? std::get_if<CudaKernelRequest>(&*refused) : nullptr) {
        thread_.post({request->ticket, ""});
    }
}

std::vector<CudaKernelReply> CudaKernelResolver::answers() {
    return thread_.answers();
}

}  // namespace gpusnoop::symbols
