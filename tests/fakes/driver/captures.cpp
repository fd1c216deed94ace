#include "driver/captures.h"

#include "driver/objects.h"

#include <algorithm>
#include <atomic>
#include <string_view>

namespace standin {
namespace {

std::atomic<std::size_t> g_watched = 0;
std::atomic<std::uint64_t> g_threads = 0;
thread_local const std::uint64_t t_thread = ++g_threads;

bool is_per_thread(truth::Function function) {
    const std::string_view name = truth::kFunctionNames[static_cast<std::size_t>(function)];
    return name.ends_with("_ptsz") || name.ends_with("_ptds");
}

Stream handle(std::uintptr_t value) {
    return reinterpret_cast<Stream>(value);
}

}  // namespace

bool captures_exist() {
    return g_watched.load(std::memory_order_relaxed) != 0;
}

Captures &captures() {
    static Captures &instance = *new Captures;
    return instance;
}

void count_watched() {
    g_watched = captures().by_id.size() + captures().events.size();
}

std::uint64_t this_thread() {
    return t_thread;
}

StreamKey key_of(const OnStream &on) {
    Stream stream = on.stream;
    if (stream == nullptr) {
        stream = handle(is_per_thread(on.function) ? kPerThreadStream : kLegacyStream);
    }
    return {stream == handle(kPerThreadStream) ? t_thread : 0, stream};
}

bool is_legacy(const StreamKey &key) {
    return key.second == handle(kLegacyStream);
}

Capture *capture_of(const StreamKey &key) {
    const auto found = captures().of_stream.find(key);
    return found == captures().of_stream.end() ? nullptr : &captures().by_id.at(found->second);
}

int invalidate(Capture &capture, int error) {
    capture.invalid = true;
    return error;
}

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

void join(Capture &capture, const StreamKey &key, const Nodes &nodes) {
    captures().of_stream[key] = capture.id;
    Nodes &of = capture.streams[key];
    for (NodeObject *node : nodes) {
        if (std::ranges::find(of, node) == of.end()) {
            of.push_back(node);
        }
    }
}

NodeObject *add(Capture &capture, const StreamKey &key, Work work) {
    Nodes &at = capture.streams.at(key);
    NodeObject *node = append(*capture.graph, std::move(work), at);
    capture.added.push_back(node);
    at = {node};
    return node;
}

}  // namespace standin
