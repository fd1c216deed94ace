// Where captures begin and end, and what may not be while they are in progress.

#include "driver/capture.h"

#include "driver/captures.h"
#include "driver/contexts.h"

#include <algorithm>
#include <set>

namespace standin {
namespace {

thread_local int t_mode = kCaptureGlobal;
thread_local std::vector<GraphNode> t_dependencies;

void add_all_before(NodeObject *node, std::set<NodeObject *> &all) {
    if (all.insert(node).second) {
        for (NodeObject *before : node->dependencies) {
            add_all_before(before, all);
        }
    }
}

// All that was captured has to come before the end of the stream in which it began.
bool is_joined(const Capture &capture) {
    std::set<NodeObject *> before;
    for (NodeObject *node : capture.streams.at(capture.origin)) {
        add_all_before(node, before);
    }
    return std::ranges::all_of(capture.added,
                               [&](NodeObject *node) { return before.contains(node); });
}

int begin(const OnStream &on, int mode, std::uint64_t context, Graph into, Nodes dependencies) {
    const StreamKey key = key_of(on);
    if (is_legacy(key)) {
        return kCaptureUnsupported;
    }
    if (capture_of(key) != nullptr) {
        return kIllegalState;
    }
    Capture capture;
    capture.id = ++captures().ids;
    capture.mode = mode;
    capture.thread = this_thread();
    capture.context = context;
    capture.origin = key;
    capture.into_existing = into != nullptr;
    capture.handle = into != nullptr ? into : add_graph();
    capture.graph = owned_graph(capture.handle);
    join(captures().by_id.emplace(capture.id, capture).first->second, key, dependencies);
    count_watched();
    return kSuccess;
}

bool is_mode(int mode) {
    return mode >= kCaptureGlobal && mode <= kCaptureRelaxed;
}

}  // namespace

int forbidden_as_unsafe() {
    if (!captures_exist() || t_mode == kCaptureRelaxed) {
        return kSuccess;
    }
    const auto lock = lock_graphs();
    int error = kSuccess;
    for (auto &[id, capture] : captures().by_id) {
        const bool own = capture.thread == this_thread();
        const bool forbids = own ? capture.mode != kCaptureRelaxed
                                 : capture.mode == kCaptureGlobal && t_mode == kCaptureGlobal;
        if (forbids) {
            error = invalidate(capture, kCaptureUnsupported);
        }
    }
    return error;
}

int forbidden_to_wait(const OnStream &on) {
    if (!captures_exist()) {
        return kSuccess;
    }
    const auto lock = lock_graphs();
    const StreamKey key = key_of(on);
    if (is_legacy(key)) {
        return forbidden_in_legacy(current_context().id);
    }
    Capture *capture = capture_of(key);
    if (capture == nullptr) {
        return kSuccess;
    }
    return capture->invalid ? static_cast<int>(kCaptureInvalidated)
                            : invalidate(*capture, kCaptureUnsupported);
}

int forbidden_in_batch(const OnStream &on) {
    const auto lock = lock_graphs();
    const StreamKey key = key_of(on);
    if (is_legacy(key)) {
        return kInvalidValue;
    }
    return capture_of(key) == nullptr ? kSuccess : kCaptureUnsupported;
}

int forbidden_to_wait_for_context(std::uint64_t context) {
    if (!captures_exist()) {
        return kSuccess;
    }
    const auto lock = lock_graphs();
    int error = kSuccess;
    for (auto &[id, capture] : captures().by_id) {
        if (capture.context == context) {
            error = invalidate(capture, kCaptureUnsupported);
        }
    }
    return error;
}

int begin_capture(const OnStream &on, int mode, std::uint64_t context) {
    const auto lock = lock_graphs();
    return is_mode(mode) ? begin(on, mode, context, nullptr, {}) : static_cast<int>(kInvalidValue);
}

int begin_capture(const OnStream &on, int mode, std::uint64_t context, Graph into,
                  const GraphNode *dependencies, std::size_t count) {
    const auto lock = lock_graphs();
    Nodes nodes;
    const Content graph = owned_graph(into);
    if (!is_mode(mode) || graph == nullptr || graph->is_executable ||
        !nodes_of(*graph, dependencies, count, nodes)) {
        return kInvalidValue;
    }
    return begin(on, mode, context, into, nodes);
}

// An end in the wrong thread changes nothing; one in the wrong stream invalidates the capture; any
// other is the end of it, with or without a graph.
int end_capture(const OnStream &on, Graph *graph) {
    const auto lock = lock_graphs();
    if (graph == nullptr) {
        return kInvalidValue;
    }
    *graph = nullptr;
    const StreamKey key = key_of(on);
    Capture *capture = capture_of(key);
    if (capture == nullptr) {
        return kIllegalState;
    }
    if (capture->thread != this_thread() && capture->mode != kCaptureRelaxed) {
        return kCaptureWrongThread;
    }
    if (capture->origin != key) {
        return invalidate(*capture, kCaptureUnmatched);
    }
    const int error = capture->invalid       ? kCaptureInvalidated
                      : !is_joined(*capture) ? kCaptureUnjoined
                                             : kSuccess;
    if (error != kSuccess) {
        discard(*capture);
        return error;
    }
    *graph = capture->handle;
    drop(*capture);
    return kSuccess;
}

int exchange_mode(int *mode) {
    if (mode == nullptr || !is_mode(*mode)) {
        return kInvalidValue;
    }
    std::swap(*mode, t_mode);
    return kSuccess;
}

int capture_info(const OnStream &on, CaptureInfo &info) {
    const auto lock = lock_graphs();
    const StreamKey key = key_of(on);
    if (is_legacy(key)) {
        return forbidden_in_legacy(current_context().id);
    }
    const Capture *capture = capture_of(key);
    if (capture == nullptr) {
        return kSuccess;
    }
    info.status = capture->invalid ? kCaptureIsInvalid : kCapturing;
    info.id = capture->id;
    if (!capture->invalid) {
        info.graph = capture->handle;
        const Nodes &nodes = capture->streams.at(key);
        t_dependencies.assign(nodes.begin(), nodes.end());
        info.dependencies = t_dependencies.data();
        info.count = t_dependencies.size();
    }
    return kSuccess;
}

void forget_stream(Stream stream) {
    if (!captures_exist()) {
        return;
    }
    const auto lock = lock_graphs();
    const StreamKey key{0, stream};
    Capture *capture = capture_of(key);
    if (capture == nullptr) {
        return;
    }
    if (capture->origin == key) {
        discard(*capture);
        return;
    }
    invalidate(*capture, kCaptureInvalidated);
    capture->streams.erase(key);
    captures().of_stream.erase(key);
}

bool is_being_captured(const GraphContent &graph) {
    return std::ranges::any_of(
        captures().by_id, [&graph](const auto &one) { return one.second.graph.get() == &graph; });
}

}  // namespace standin
