// Work on capturing streams, which becomes nodes.

#include "driver/captures.h"
#include "driver/contexts.h"
#include "driver/truth_writer.h"

namespace standin {
namespace {

using truth::Captured;

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
    const StreamKey key = key_of({open.function, stream});
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

}  // namespace

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

}  // namespace standin
