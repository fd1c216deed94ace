// Devices, streams, events and errors. There is one device, and every stream is always done.

#include "cudart/call.h"

#include <utility>

namespace standin {
namespace {

using truth::Function;

constexpr int kDevices = 1;
constexpr int kVersion = STANDIN_CUDA_MAJOR * 1000;

int trivial_call(Function function) {
    return leave(enter(function), kSuccess);
}

template <typename Value>
int answer_call(Function function, Value *out, Value value) {
    const Call call = enter(function);
    if (out == nullptr) {
        return leave(call, kInvalidValue);
    }
    *out = value;
    return leave(call, kSuccess);
}

int create_call(Function function, void **out) {
    const Call call = enter(function);
    if (out == nullptr) {
        return leave(call, kInvalidValue);
    }
    *out = new char;
    return leave(call, kSuccess);
}

int destroy_call(Function function, void *handle) {
    const Call call = enter(function);
    if (handle == nullptr) {
        return leave(call, kInvalidResourceHandle);
    }
    delete static_cast<char *>(handle);
    return leave(call, kSuccess);
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
    {kInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {kInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {kMissingConfiguration, "cudaErrorMissingConfiguration",
     "__global__ function call is not configured"},
    {kInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {kInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {kInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
};

const char *describe(Function function, int error, const char *ErrorText::*member) {
    const Call call = enter(function);
    const char *text = "unrecognized error code";
    for (const ErrorText &known : kErrorTexts) {
        if (known.code == error) {
            text = known.*member;
        }
    }
    leave(call, kSuccess);
    return text;
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_EXPORT int cudaDeviceSynchronize() {
    return trivial_call(Function::k_cudaDeviceSynchronize);
}

STANDIN_EXPORT int cudaStreamCreate(Stream *stream) {
    return create_call(Function::k_cudaStreamCreate, stream);
}

STANDIN_EXPORT int cudaStreamCreateWithFlags(Stream *stream, unsigned /*flags*/) {
    return create_call(Function::k_cudaStreamCreateWithFlags, stream);
}

STANDIN_EXPORT int cudaStreamSynchronize(Stream /*stream*/) {
    return trivial_call(Function::k_cudaStreamSynchronize);
}

STANDIN_EXPORT int cudaStreamDestroy(Stream stream) {
    return destroy_call(Function::k_cudaStreamDestroy, stream);
}

STANDIN_EXPORT int cudaEventCreate(Event *event) {
    return create_call(Function::k_cudaEventCreate, event);
}

STANDIN_EXPORT int cudaEventRecord(Event /*event*/, Stream /*stream*/) {
    return trivial_call(Function::k_cudaEventRecord);
}

STANDIN_EXPORT int cudaEventSynchronize(Event /*event*/) {
    return trivial_call(Function::k_cudaEventSynchronize);
}

STANDIN_EXPORT int cudaEventElapsedTime(float *milliseconds, Event /*start*/, Event /*end*/) {
    return answer_call(Function::k_cudaEventElapsedTime, milliseconds, 1.0F);
}

STANDIN_EXPORT int cudaEventDestroy(Event event) {
    return destroy_call(Function::k_cudaEventDestroy, event);
}

STANDIN_EXPORT int cudaGetDeviceCount(int *count) {
    return answer_call(Function::k_cudaGetDeviceCount, count, kDevices);
}

STANDIN_EXPORT int cudaSetDevice(int device) {
    const Call call = enter(Function::k_cudaSetDevice);
    if (device < 0 || device >= kDevices) {
        return leave(call, kInvalidDevice);
    }
    thread_state().device = device;
    return leave(call, kSuccess);
}

STANDIN_EXPORT int cudaGetDevice(int *device) {
    return answer_call(Function::k_cudaGetDevice, device, thread_state().device);
}

STANDIN_EXPORT int cudaRuntimeGetVersion(int *version) {
    return answer_call(Function::k_cudaRuntimeGetVersion, version, kVersion);
}

STANDIN_EXPORT int cudaDriverGetVersion(int *version) {
    return answer_call(Function::k_cudaDriverGetVersion, version, kVersion);
}

STANDIN_EXPORT int cudaGetLastError() {
    const Call call = enter(Function::k_cudaGetLastError);
    return leave(call, std::exchange(thread_state().last_error, kSuccess));
}

STANDIN_EXPORT int cudaPeekAtLastError() {
    const Call call = enter(Function::k_cudaPeekAtLastError);
    return leave(call, thread_state().last_error);
}

STANDIN_EXPORT const char *cudaGetErrorString(int error) {
    return describe(Function::k_cudaGetErrorString, error, &ErrorText::text);
}

STANDIN_EXPORT const char *cudaGetErrorName(int error) {
    return describe(Function::k_cudaGetErrorName, error, &ErrorText::name);
}

}  // extern "C"
