#include "exporter/symbols/stacks/stack_resolver.h"

#include <chrono>
#include <utility>

namespace gpusnoop::symbols {
namespace {

// Few enough to stop soon, many enough to read a file's symbols once for many stacks.
constexpr std::size_t max_batch = 256;
// The libraries of one process may be many and large. What is not named then has no names.
constexpr std::chrono::seconds longest_turn{5};

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
          {.max_waiting = max_waiting, .max_batch = max_batch, .longest_turn = longest_turn},
          [this](const std::vector<StackRequest> &batch, const WorkLimit &limit, const auto &post) {
              for (StackReply &answer : namer_.name(batch, limit)) {
                  post(std::move(answer));
              }
              return batch.size();
          },
          [this] { return namer_.close_unused(); }) {}

void StackResolver::ask(StackRequest request) {
    const std::uint32_t tgid = request.tgid;
    if (const auto refused = thread_.ask(tgid, std::move(request))) {
        thread_.post(StackNamer::unresolved(refused->ticket, refused->addresses.size()));
    }
}

std::vector<StackReply> StackResolver::answers() {
    return thread_.answers();
}

}  // namespace gpusnoop::symbols
