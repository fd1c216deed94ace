// The functions that capture streams.

#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/cuda.h"
#include "driver/objects.h"

namespace standin {
namespace {

using truth::Function;

template <typename Action>
int stream_call(Function self, Stream stream, Action &&action) {
    return call(self, [&](const Call &) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        return is_stream(stream) ? action(OnStream{self, stream}, current)
                                 : static_cast<int>(kInvalidResourceHandle);
    });
}

int begin(Function self, Stream stream, int mode) {
    return stream_call(self, stream, [&](const OnStream &on, const Current &current) {
        return begin_capture(on, mode, current.id);
    });
}

int begin_into(Function self, Stream stream, Graph graph, const GraphNode *dependencies,
               std::size_t count, int mode) {
    return stream_call(self, stream, [&](const OnStream &on, const Current &current) {
        return begin_capture(on, mode, current.id, graph, dependencies, count);
    });
}

int end(Function self, Stream stream, Graph *graph) {
    return stream_call(self, stream,
                       [&](const OnStream &on, const Current &) { return end_capture(on, graph); });
}

template <typename Value>
void put(Value *out, const Value &value) {
    if (out != nullptr) {
        *out = value;
    }
}

struct InfoOut {
    int *status;
    std::uint64_t *id = nullptr;
    Graph *graph = nullptr;
    const GraphNode **dependencies = nullptr;
    const EdgeData **edges = nullptr;
    std::size_t *count = nullptr;
};

int info(Function self, Stream stream, const InfoOut &out) {
    return stream_call(self, stream, [&](const OnStream &on, const Current &) -> int {
        if (out.status == nullptr) {
            return kInvalidValue;
        }
        CaptureInfo of;
        if (const int error = capture_info(on, of); error != kSuccess) {
            return error;
        }
        *out.status = of.status;
        put(out.id, of.id);
        put(out.graph, of.graph);
        put(out.dependencies, of.dependencies);
        put(out.edges, static_cast<const EdgeData *>(nullptr));
        put(out.count, of.count);
        return kSuccess;
    });
}

int query(Function self, Stream stream) {
    return stream_call(self, stream,
                       [](const OnStream &on, const Current &) { return forbidden_to_wait(on); });
}

// Without a capture the function is called at once: the stream has nothing before it to do.
int host_call(Function self, Stream stream, const HostNode &node) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        if (!is_stream(stream)) {
            return kInvalidResourceHandle;
        }
        if (node.function == nullptr) {
            return kInvalidValue;
        }
        Work work;
        work.type = kHostNode;
        work.function = node.function;
        work.argument = node.argument;
        if (const auto result = capture_work(open, stream, std::move(work))) {
            return *result;
        }
        node.function(node.argument);
        return kSuccess;
    });
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE_BOTH(cuStreamBeginCapture_v2, _ptsz, (Stream stream, int mode),
                    begin(self, stream, mode))
STANDIN_DEFINE_BOTH(cuStreamBeginCaptureToGraph, _ptsz,
                    (Stream stream, Graph graph, const GraphNode *dependencies,
                     const EdgeData * /*edges*/, std::size_t count, int mode),
                    begin_into(self, stream, graph, dependencies, count, mode))
STANDIN_DEFINE_BOTH(cuStreamEndCapture, _ptsz, (Stream stream, Graph *graph),
                    end(self, stream, graph))
STANDIN_DEFINE_BOTH(cuStreamIsCapturing, _ptsz, (Stream stream, int *status),
                    info(self, stream, {status}))
STANDIN_DEFINE_BOTH(cuStreamGetCaptureInfo_v2, _ptsz,
                    (Stream stream, int *status, std::uint64_t *id, Graph *graph,
                     const GraphNode **dependencies, std::size_t *count),
                    info(self, stream, {status, id, graph, dependencies, nullptr, count}))
STANDIN_DEFINE_BOTH(cuStreamGetCaptureInfo_v3, _ptsz,
                    (Stream stream, int *status, std::uint64_t *id, Graph *graph,
                     const GraphNode **dependencies, const EdgeData **edges, std::size_t *count),
                    info(self, stream, {status, id, graph, dependencies, edges, count}))
STANDIN_DEFINE(cuThreadExchangeStreamCaptureMode, (int *mode),
               call(self, [&](const Call &) { return exchange_mode(mode); }))
STANDIN_DEFINE_BOTH(cuStreamQuery, _ptsz, (Stream stream), query(self, stream))
STANDIN_DEFINE_BOTH(cuLaunchHostFunc, _ptsz, (Stream stream, HostFunction function, void *argument),
                    host_call(self, stream, {function, argument}))

}  // extern "C"
