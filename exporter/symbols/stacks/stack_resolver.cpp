#include "exporter/symbols/stacks/stack_resolver.h"

#include <utility>

namespace gpusnoop::symbols {
namespace {

// Few enough to stop soon, many enough to read a file's symbols once for many stacks.
constexpr std::size_t max_batch = 256;

}  // namespace

Result<std::unique_ptr<StackResolver>> StackResolver::start() {
    auto files = MappedFiles::open();
    if (!files) {
        return tl::unexpected(files.error());
    }
    return std::make_unique<StackResolver>(std::move(*files));
}

StackResolver::StackResolver(std::unique_ptr<MappedFiles> files, FileCache::Settings settings)
    : namer_(std::move(files), std::move(settings)),
      thread_(
          {.max_waiting = max_waiting, .max_batch = max_batch},
          [this](const std::vector<StackRequest> &batch, const auto &post) {
              for (StackReply &answer : namer_.name(batch)) {
                  post(std::move(answer));
              }
          },
          [this] { return namer_.close_unused(); }) {}

void StackResolver::ask(StackRequest request) {
    const std::uint64_t ticket = request.ticket;
    const std::size_t addresses = request.addresses.size();
    if (!thread_.ask(std::move(request))) {
        thread_.post(StackNamer::unresolved(ticket, addresses));
    }
}

std::vector<StackReply> StackResolver::answers() {
    return thread_.answers();
}

}  // namespace gpusnoop::symbols
