// Names the stacks that allocations were made from, on its own thread, off the hot path.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/symbols/stacks/background_resolver.h"
#include "exporter/symbols/stacks/stack_namer.h"

namespace gpusnoop::symbols {

class StackResolver {
public:
    // The limit of waiting requests. Over it, requests are answered immediately, with unresolved
    // frames.
    static constexpr std::size_t max_waiting = 4096;

    static Result<std::unique_ptr<StackResolver>> start();
    explicit StackResolver(std::unique_ptr<MappedFiles> files, FileCache::Settings settings = {});
    StackResolver(const StackResolver &) = delete;
    StackResolver &operator=(const StackResolver &) = delete;

    // Never blocks.
    void ask(StackRequest request);
    // The answers that are ready: one for each request, in any order.
    std::vector<StackReply> answers();

private:
    StackNamer namer_;  // used by the thread only
    BackgroundResolver<StackRequest, StackReply> thread_;
};

}  // namespace gpusnoop::symbols
