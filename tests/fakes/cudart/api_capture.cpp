// The functions that capture streams.

#include "cudart/call.h"

namespace standin {
namespace {

using truth::Function;

// Calls the driver in the thread's context.
template <typename... Parameters, typename... Arguments>
int stream_call(Function self, int (*function)(Parameters...), Arguments... arguments) {
    return call(self, [&](const Call &open) -> int {
        if (const int error = use_device(); error != kSuccess) {
            return error;
        }
        return on_behalf(open, {}, function, arguments...);
    });
}

}  // namespace
}  // namespace standin

using namespace standin;

#define STANDIN_DEFINE_CAPTURE(suffix)                                                            \
    STANDIN_DEFINE(cudaStreamBeginCapture##suffix, (Stream stream, int mode),                     \
                   stream_call(self, driver().cuStreamBeginCapture_v2##suffix, stream, mode))     \
    STANDIN_DEFINE(cudaStreamBeginCaptureToGraph##suffix,                                         \
                   (Stream stream, Graph graph, const GraphNode *dependencies,                    \
                    const EdgeData *edges, std::size_t count, int mode),                          \
                   stream_call(self, driver().cuStreamBeginCaptureToGraph##suffix, stream, graph, \
                               dependencies, edges, count, mode))                                 \
    STANDIN_DEFINE(cudaStreamEndCapture##suffix, (Stream stream, Graph * graph),                  \
                   stream_call(self, driver().cuStreamEndCapture##suffix, stream, graph))         \
    STANDIN_DEFINE(cudaStreamIsCapturing##suffix, (Stream stream, int *status),                   \
                   stream_call(self, driver().cuStreamIsCapturing##suffix, stream, status))       \
    STANDIN_DEFINE(cudaStreamGetCaptureInfo_v2##suffix,                                           \
                   (Stream stream, int *status, std::uint64_t *id, Graph *graph,                  \
                    const GraphNode **dependencies, std::size_t *count),                          \
                   stream_call(self, driver().cuStreamGetCaptureInfo_v2##suffix, stream, status,  \
                               id, graph, dependencies, count))                                   \
    STANDIN_DEFINE(cudaStreamGetCaptureInfo_v3##suffix,                                           \
                   (Stream stream, int *status, std::uint64_t *id, Graph *graph,                  \
                    const GraphNode **dependencies, const EdgeData **edges, std::size_t *count),  \
                   stream_call(self, driver().cuStreamGetCaptureInfo_v3##suffix, stream, status,  \
                               id, graph, dependencies, edges, count))                            \
    STANDIN_DEFINE(cudaStreamWaitEvent##suffix, (Stream stream, Event event, unsigned flags),     \
                   stream_call(self, driver().cuStreamWaitEvent##suffix, stream, event, flags))   \
    STANDIN_DEFINE(cudaStreamQuery##suffix, (Stream stream),                                      \
                   stream_call(self, driver().cuStreamQuery##suffix, stream))                     \
    STANDIN_DEFINE(                                                                               \
        cudaLaunchHostFunc##suffix, (Stream stream, HostFunction function, void *argument),       \
        stream_call(self, driver().cuLaunchHostFunc##suffix, stream, function, argument))

extern "C" {

STANDIN_DEFINE_CAPTURE()
STANDIN_DEFINE_CAPTURE(_ptsz)

// Since CUDA 13 it is what the third version was.
#if STANDIN_CUDA_MAJOR < 13
STANDIN_DEFINE_BOTH(cudaStreamGetCaptureInfo, _ptsz,
                    (Stream stream, int *status, std::uint64_t *id),
                    stream_call(self,
                                self == Function::k_cudaStreamGetCaptureInfo
                                    ? driver().cuStreamGetCaptureInfo_v2
                                    : driver().cuStreamGetCaptureInfo_v2_ptsz,
                                stream, status, id, nullptr, nullptr, nullptr))
#else
STANDIN_DEFINE_BOTH(cudaStreamGetCaptureInfo, _ptsz,
                    (Stream stream, int *status, std::uint64_t *id, Graph *graph,
                     const GraphNode **dependencies, const EdgeData **edges, std::size_t *count),
                    stream_call(self,
                                self == Function::k_cudaStreamGetCaptureInfo
                                    ? driver().cuStreamGetCaptureInfo_v3
                                    : driver().cuStreamGetCaptureInfo_v3_ptsz,
                                stream, status, id, graph, dependencies, edges, count))
#endif

STANDIN_DEFINE(cudaThreadExchangeStreamCaptureMode, (int *mode),
               stream_call(self, driver().cuThreadExchangeStreamCaptureMode, mode))

}  // extern "C"
