#include "driver/capture.h"

#include "driver/contexts.h"
#include "driver/objects.h"
#include "driver/truth_writer.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <string_view>

namespace standin {
namespace {

using truth::Captured;

using Nodes = std::vector<NodeObject *>;

// A thread's default stream is another one in each thread.
using Key = std::pair<std::uint64_t, Stream>;

struct Capture {
    std::uint64_t id = 0;
    int mode = kCaptureGlobal;
    std::uint64_t thread = 0;
    std::uint64_t context = 0;
    Key origin;
    Graph handle = nullptr;
    Content graph;
    bool into_existing = false;
    bool invalid = false;
    std::map<Key, Nodes> streams;  // and what comes next in each depends on
    Nodes added;
};

struct CapturedEvent {
    std::uint64_t capture;
    Nodes nodes;
};

// Under the lock of the book.
struct Captures {
    std::map<std::uint64_t, Capture> by_id;
    std::map<Key, std::uint64_t> of_stream;
    std::map<Event, CapturedEvent> events;
    std::uint64_t ids = 0;
};

std::atomic<std::size_t> g_watched = 0;
std::atomic<std::uint64_t> g_threads = 0;
thread_local const std::uint64_t t_thread = ++g_threads;
thread_local int t_mode = kCaptureGlobal;
thread_local std::vector<GraphNode> t_dependencies;

Captures &captures() {
    static Captures &instance = *new Captures;
    return instance;
}

void count_watched() {
    g_watched = captures().by_id.size() + captures().events.size();
}

bool is_per_thread(truth::Function function) {
    const std::string_view name = truth::kFunctionNames[static_cast<std::size_t>(function)];
    return name.ends_with("_ptsz") || name.ends_with("_ptds");
}

Stream handle(std::uintptr_t value) {
    return reinterpret_cast<Stream>(value);
}

Key key_of(const OnStream &on) {
    Stream stream = on.stream;
    if (stream == nullptr) {
        stream = handle(is_per_thread(on.function) ? kPerThreadStream : kLegacyStream);
    }
    return {stream == handle(kPerThreadStream) ? t_thread : 0, stream};
}

bool is_legacy(const Key &key) {
    return key.second == handle(kLegacyStream);
}

Capture *capture_of(const Key &key) {
    const auto found = captures().of_stream.find(key);
    return found == captures().of_stream.end() ? nullptr : &captures().by_id.at(found->second);
}

int invalidate(Capture &capture, int error) {
    capture.invalid = true;
    return error;
}

// Work in the legacy stream would come after that of all blocking streams of its context.
int forbidden_in_legacy(std::uint64_t context) {
    int error = kSuccess;
    for (auto &[id, capture] : captures().by_id) {
        if (capture.context == context && std::ranges::any_of(capture.streams, [](const auto &one) {
                return is_blocking(one.first.second);
            })) {
            error = invalidate(capture, kCaptureImplicit);
        }
    }
    return error;
}

void drop(Capture &capture) {
    for (const auto &[key, nodes] : capture.streams) {
        captures().of_stream.erase(key);
    }
    captures().by_id.erase(capture.id);
    count_watched();
}

void discard(Capture &capture) {
    if (!capture.into_existing) {
        forget(capture.handle);
    }
    drop(capture);
}

void join(Capture &capture, const Key &key, const Nodes &nodes) {
    captures().of_stream[key] = capture.id;
    Nodes &of = capture.streams[key];
    for (NodeObject *node : nodes) {
        if (std::ranges::find(of, node) == of.end()) {
            of.push_back(node);
        }
    }
}

NodeObject *add(Capture &capture, const Key &key, Work work) {
    Nodes &at = capture.streams.at(key);
    NodeObject *node = append(*capture.graph, std::move(work), at);
    capture.added.push_back(node);
    at = {node};
    return node;
}

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

std::optional<Captured> operation(const Work &work) {
    switch (work.type) {
        case kKernelNode:
            return Captured::launch;
        case kCopyNode:
            return Captured::copy;
        case kSetNode:
            return Captured::memset;
        case kAllocateNode:
            return Captured::allocate;
        case kFreeNode:
            return Captured::free;
        case kChildNode:
            return Captured::graph;
        default:
            return std::nullopt;
    }
}

// `make` gives the work, or why there is none; it is called with the lock held.
template <typename Make>
std::optional<int> capture(const Call &open, Stream stream, Make &&make) {
    if (!captures_exist()) {
        return std::nullopt;
    }
    const auto lock = lock_graphs();
    const Key key = key_of({open.function, stream});
    if (is_legacy(key)) {
        const int error = forbidden_in_legacy(current_context().id);
        return error == kSuccess ? std::nullopt : std::optional<int>(error);
    }
    Capture *into = capture_of(key);
    if (into == nullptr) {
        return std::nullopt;
    }
    if (into->invalid) {
        return kCaptureInvalidated;
    }
    if (!counts(open)) {
        return kSuccess;
    }
    Work work;
    if (const int error = make(work); error != kSuccess) {
        return error;
    }
    if (const auto what = operation(work)) {
        count_captured(current_device(), *what);
    }
    add(*into, key, std::move(work));
    return kSuccess;
}

int begin(const OnStream &on, int mode, std::uint64_t context, Graph into, Nodes dependencies) {
    const Key key = key_of(on);
    if (is_legacy(key)) {
        return kCaptureUnsupported;
    }
    if (capture_of(key) != nullptr) {
        return kIllegalState;
    }
    Capture capture;
    capture.id = ++captures().ids;
    capture.mode = mode;
    capture.thread = t_thread;
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

bool captures_exist() {
    return g_watched.load(std::memory_order_relaxed) != 0;
}

std::optional<int> capture_work(const Call &open, Stream stream, Work work) {
    return capture(open, stream, [&](Work &made) -> int {
        made = std::move(work);
        return kSuccess;
    });
}

std::optional<int> capture_graph(const Call &open, Stream stream, GraphExec executable) {
    return capture(open, stream, [&](Work &work) -> int {
        const GraphContent *content = executable_of(executable);
        if (content == nullptr) {
            return kInvalidResourceHandle;
        }
        if (has_memory(*content)) {
            return kNotSupported;
        }
        work.type = kChildNode;
        work.child = copy_of(*content, false);
        return kSuccess;
    });
}

std::optional<int> capture_allocation(const Call &open, Stream stream, std::size_t bytes,
                                      std::uint64_t context, DevicePointer *address) {
    return capture(open, stream, [&](Work &work) -> int {
        work.type = kAllocateNode;
        work.bytes = bytes;
        work.memory = std::make_shared<GraphMemory>(bytes, context);
        *address = reinterpret_cast<DevicePointer>(work.memory->start());
        return *address == 0 ? kMemoryAllocation : kSuccess;
    });
}

std::optional<int> capture_free(const Call &open, Stream stream, DevicePointer address) {
    return capture(open, stream, [&](Work &work) -> int {
        work.type = kFreeNode;
        work.memory = graph_memory_at(address);
        return work.memory == nullptr ? kInvalidValue : kSuccess;
    });
}

int forbidden_as_unsafe() {
    if (!captures_exist() || t_mode == kCaptureRelaxed) {
        return kSuccess;
    }
    const auto lock = lock_graphs();
    int error = kSuccess;
    for (auto &[id, capture] : captures().by_id) {
        const bool own = capture.thread == t_thread;
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
    const Key key = key_of(on);
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

int forbidden_to_wait(Event event) {
    if (!captures_exist()) {
        return kSuccess;
    }
    const auto lock = lock_graphs();
    const auto found = captures().events.find(event);
    if (found == captures().events.end()) {
        return kSuccess;
    }
    const auto of = captures().by_id.find(found->second.capture);
    return of == captures().by_id.end() ? static_cast<int>(kCapturedEvent)
                                        : invalidate(of->second, kCapturedEvent);
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
    const Key key = key_of(on);
    Capture *capture = capture_of(key);
    if (capture == nullptr) {
        return kIllegalState;
    }
    if (capture->thread != t_thread && capture->mode != kCaptureRelaxed) {
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
    const Key key = key_of(on);
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

std::optional<int> capture_record(const OnStream &on, Event event, bool external) {
    if (!captures_exist()) {
        return std::nullopt;
    }
    const auto lock = lock_graphs();
    const Key key = key_of(on);
    if (is_legacy(key)) {
        if (const int error = forbidden_in_legacy(current_context().id); error != kSuccess) {
            return error;
        }
    }
    Capture *capture = capture_of(key);
    if (capture == nullptr) {
        captures().events.erase(event);
        count_watched();
        return std::nullopt;
    }
    if (capture->invalid) {
        return kCaptureInvalidated;
    }
    if (external) {
        Work work;
        work.type = kEventRecordNode;
        work.event = event;
        add(*capture, key, std::move(work));
    } else {
        captures().events[event] = {capture->id, capture->streams.at(key)};
        count_watched();
    }
    return kSuccess;
}

std::optional<int> capture_wait(const OnStream &on, Event event, bool external) {
    if (!captures_exist()) {
        return std::nullopt;
    }
    const auto lock = lock_graphs();
    const Key key = key_of(on);
    Capture *capture = capture_of(key);
    if (capture != nullptr && capture->invalid) {
        return kCaptureInvalidated;
    }
    if (external && capture != nullptr) {
        Work work;
        work.type = kEventWaitNode;
        work.event = event;
        add(*capture, key, std::move(work));
        return kSuccess;
    }
    const auto found = captures().events.find(event);
    if (found == captures().events.end()) {
        return capture == nullptr ? std::nullopt
                                  : std::optional<int>(invalidate(*capture, kCaptureIsolation));
    }
    const auto of = captures().by_id.find(found->second.capture);
    if (of == captures().by_id.end()) {  // which is over
        return capture == nullptr ? static_cast<int>(kCapturedEvent)
                                  : invalidate(*capture, kCapturedEvent);
    }
    if (of->second.invalid) {
        return kCaptureInvalidated;
    }
    if (is_legacy(key)) {
        return invalidate(of->second, kCaptureImplicit);
    }
    if (capture != nullptr && capture->id != of->first) {
        invalidate(of->second, kCaptureMerge);
        return invalidate(*capture, kCaptureMerge);
    }
    join(of->second, key, found->second.nodes);
    return kSuccess;
}

void forget_event(Event event) {
    if (captures_exist()) {
        const auto lock = lock_graphs();
        captures().events.erase(event);
        count_watched();
    }
}

void forget_stream(Stream stream) {
    if (!captures_exist()) {
        return;
    }
    const auto lock = lock_graphs();
    const Key key{0, stream};
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
