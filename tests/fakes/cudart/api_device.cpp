// Devices, streams, events and errors. Every stream is always done.

#include "cudart/call.h"

#include <utility>

namespace standin {
namespace {

using truth::Function;

constexpr int kVersion = STANDIN_CUDA_MAJOR * 1000;

template <typename Value, typename Get>
int answer_call(Function self, Value *out, Get &&get) {
    return call(self, [&](const Call &) -> int { return out == nullptr ? kInvalidValue : get(); });
}

template <typename Value>
int value_call(Function self, Value *out, Value value) {
    return answer_call(self, out, [&] {
        *out = value;
        return kSuccess;
    });
}

// Calls the driver, whose events need no context.
template <typename... Parameters, typename... Arguments>
int event_call(Function self, int (*function)(Parameters...), Arguments... arguments) {
    return call(self,
                [&](const Call &open) { return on_behalf(open, {}, function, arguments...); });
}

// Calls the driver in the thread's context.
template <typename... Parameters, typename... Arguments>
int context_call(Function self, int (*function)(Parameters...), Arguments... arguments) {
    return call(self, [&](const Call &open) -> int {
        const int error = use_device();
        return error == kSuccess ? on_behalf(open, {}, function, arguments...) : error;
    });
}

int count_devices(int *count) {
    const int error = driver().cuInit(0);
    return error == kSuccess ? driver().cuDeviceGetCount(count) : error;
}

int set_device(int device) {
    const int error = choose_device(device);
    if (error == kSuccess) {
        thread_state().device = device;
    }
    return error;
}

int current_device(int *device) {
    *device = thread_state().device;
    return core().context_error() == kSuccess ? driver().cuCtxGetDevice(device) : kSuccess;
}

// Only of the context that runtimes share: others belong to whoever created them.
int reset_device(const Call &open) {
    int device = 0;
    Context current = nullptr;
    Context primary = nullptr;
    int error = use_device();
    error = error == kSuccess ? driver().cuCtxGetDevice(&device) : error;
    error = error == kSuccess ? driver().cuCtxGetCurrent(&current) : error;
    error = error == kSuccess ? primary_context(device, primary) : error;
    if (error != kSuccess) {
        return error;
    }
    if (current != primary) {
        return kIncompatibleDriverContext;
    }
    core().run_hook(open);
    return on_behalf(open, {}, driver().cuDevicePrimaryCtxReset_v2, device);
}

struct ErrorText {
    int code;
    const char *name;
    const char *text;
};

constexpr ErrorText kErrorTexts[] = {
    {kSuccess, "cudaSuccess", "no error"},
    {kInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {kMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {kNotInitialized, "cudaErrorInitializationError", "initialization error"},
    {kInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {kInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {kInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {kInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {kIncompatibleDriverContext, "cudaErrorIncompatibleDriverContext",
     "incompatible driver context"},
    {kMissingConfiguration, "cudaErrorMissingConfiguration",
     "__global__ function call is not configured"},
    {kInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {kNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {kInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {kInvalidContext, "cudaErrorDeviceUninitialized", "invalid device context"},
    {kInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {kNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {kIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {kContextIsDestroyed, "cudaErrorContextIsDestroyed", "context is destroyed"},
    {kNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {kCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {kCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {kCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {kCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {kCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {kCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {kCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {kCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {kGraphUpdateFailure, "cudaErrorGraphExecUpdateFailure",
     "the graph update was not performed because it included changes which violated constraints "
     "specific to instantiated graph update"},
    {kUnknown, "cudaErrorUnknown", "unknown error"},
};

const char *describe(Function function, int error, const char *ErrorText::*member) {
    const Call open = enter(function);
    const char *text = "unrecognized error code";
    for (const ErrorText &known : kErrorTexts) {
        if (known.code == error) {
            text = known.*member;
        }
    }
    leave(open, kSuccess);
    return text;
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE(cudaDeviceSynchronize, (), context_call(self, driver().cuCtxSynchronize))
STANDIN_DEFINE(cudaDeviceReset, (), call(self, [](const Call &open) { return reset_device(open); }))

STANDIN_DEFINE(cudaStreamCreate, (Stream * stream),
               context_call(self, driver().cuStreamCreate, stream, 0U))
STANDIN_DEFINE(cudaStreamCreateWithFlags, (Stream * stream, unsigned flags),
               context_call(self, driver().cuStreamCreate, stream, flags))
STANDIN_DEFINE(cudaStreamCreateWithPriority, (Stream * stream, unsigned flags, int priority),
               context_call(self, driver().cuStreamCreateWithPriority, stream, flags, priority))
STANDIN_DEFINE(cudaExecutionCtxStreamCreate,
               (Stream * stream, Context context, unsigned flags, int priority),
               context_call(self, driver().cuGreenCtxStreamCreate, stream, context, flags,
                            priority))
STANDIN_DEFINE(cudaStreamSynchronize, (Stream stream),
               context_call(self, driver().cuStreamSynchronize, stream))
STANDIN_DEFINE(cudaStreamSynchronize_ptsz, (Stream stream),
               context_call(self, driver().cuStreamSynchronize_ptsz, stream))
STANDIN_DEFINE(cudaStreamDestroy, (Stream stream),
               context_call(self, driver().cuStreamDestroy_v2, stream))

STANDIN_DEFINE(cudaEventCreate, (Event * event),
               event_call(self, driver().cuEventCreate, event, 0U))
STANDIN_DEFINE(cudaEventRecord, (Event event, Stream stream),
               event_call(self, driver().cuEventRecord, event, stream))
STANDIN_DEFINE(cudaEventRecord_ptsz, (Event event, Stream stream),
               event_call(self, driver().cuEventRecord_ptsz, event, stream))
STANDIN_DEFINE(cudaEventRecordWithFlags, (Event event, Stream stream, unsigned flags),
               event_call(self, driver().cuEventRecordWithFlags, event, stream, flags))
STANDIN_DEFINE(cudaEventRecordWithFlags_ptsz, (Event event, Stream stream, unsigned flags),
               event_call(self, driver().cuEventRecordWithFlags_ptsz, event, stream, flags))
STANDIN_DEFINE(cudaEventSynchronize, (Event event),
               event_call(self, driver().cuEventSynchronize, event))
STANDIN_DEFINE(cudaEventQuery, (Event event), event_call(self, driver().cuEventQuery, event))
STANDIN_DEFINE_BOTH(cudaEventElapsedTime, _v2, (float *milliseconds, Event start, Event end),
                    event_call(self, driver().cuEventElapsedTime_v2, milliseconds, start, end))
STANDIN_DEFINE(cudaEventDestroy, (Event event), event_call(self, driver().cuEventDestroy_v2, event))

STANDIN_DEFINE(cudaGetDeviceCount, (int *count),
               answer_call(self, count, [&] { return count_devices(count); }))
STANDIN_DEFINE(cudaSetDevice, (int device),
               call(self, [&](const Call &) { return set_device(device); }))
STANDIN_DEFINE(cudaGetDevice, (int *device),
               answer_call(self, device, [&] { return current_device(device); }))
STANDIN_DEFINE(cudaRuntimeGetVersion, (int *version), value_call(self, version, kVersion))
STANDIN_DEFINE(cudaDriverGetVersion, (int *version),
               answer_call(self, version, [&] { return driver().cuDriverGetVersion(version); }))

STANDIN_EXPORT int cudaGetLastError() {
    const Call open = enter(Function::k_cudaGetLastError);
    return leave(open, std::exchange(thread_state().last_error, static_cast<int>(kSuccess)));
}

STANDIN_EXPORT int cudaPeekAtLastError() {
    const Call open = enter(Function::k_cudaPeekAtLastError);
    return leave(open, thread_state().last_error);
}

STANDIN_EXPORT const char *cudaGetErrorString(int error) {
    return describe(Function::k_cudaGetErrorString, error, &ErrorText::text);
}

STANDIN_EXPORT const char *cudaGetErrorName(int error) {
    return describe(Function::k_cudaGetErrorName, error, &ErrorText::name);
}

}  // extern "C"
