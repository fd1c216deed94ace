// Functions and errors by name.

#include "driver/call.h"
#include "driver/cuda.h"

#include <string>
#include <string_view>

namespace standin {
namespace {

using truth::Function;

struct Named {
    std::string_view name;
    void *address;
};

constexpr std::uint64_t kPerThreadStreams = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

void *address_of(std::string_view name) {
    static const Named functions[] = {
#define STANDIN_NAMED(name, ...) {#name, reinterpret_cast<void *>(::name)},
        CUDA_DRIVER_FUNCTIONS(STANDIN_NAMED) STANDIN_OTHER_DRIVER_FUNCTIONS(STANDIN_NAMED)
#undef STANDIN_NAMED
    };
    for (const Named &function : functions) {
        if (function.name == name) {
            return function.address;
        }
    }
    return nullptr;
}

// The newest version of the function that the caller's CUDA version has.
void *find_symbol(const std::string &symbol, int version, bool per_thread) {
    for (const char *revision : {"_v4", "_v3", "_v2", ""}) {
        if ((*revision != '\0' && revision[2] == '4' && version < 12050) ||
            (*revision != '\0' && revision[2] == '3' && version < 11040) ||
            (*revision != '\0' && revision[2] == '2' && version < 13000 &&
             symbol.ends_with("BatchAsync"))) {
            continue;
        }
        for (const char *suffix : {"_ptsz", "_ptds", ""}) {
            if (*suffix != '\0' && !per_thread) {
                continue;
            }
            if (void *address = address_of(symbol + revision + suffix); address != nullptr) {
                return address;
            }
        }
    }
    return nullptr;
}

int look_up(const char *symbol, void **function, int version, std::uint64_t flags, int *status) {
    if (symbol == nullptr || function == nullptr) {
        return kInvalidValue;
    }
    *function = find_symbol(symbol, version, (flags & kPerThreadStreams) != 0);
    if (status != nullptr) {
        *status = *function == nullptr ? 1 : 0;
    }
    return *function == nullptr ? kNotFound : kSuccess;
}

const char *error_name(int error) {
    switch (error) {
        case kSuccess:
            return "CUDA_SUCCESS";
        case kInvalidValue:
            return "CUDA_ERROR_INVALID_VALUE";
        case kMemoryAllocation:
            return "CUDA_ERROR_OUT_OF_MEMORY";
        case kNotInitialized:
            return "CUDA_ERROR_NOT_INITIALIZED";
        case kNoDevice:
            return "CUDA_ERROR_NO_DEVICE";
        case kInvalidDevice:
            return "CUDA_ERROR_INVALID_DEVICE";
        case kInvalidContext:
            return "CUDA_ERROR_INVALID_CONTEXT";
        case kInvalidResourceHandle:
            return "CUDA_ERROR_INVALID_HANDLE";
        case kNotFound:
            return "CUDA_ERROR_NOT_FOUND";
        case kIllegalState:
            return "CUDA_ERROR_ILLEGAL_STATE";
        case kNotSupported:
            return "CUDA_ERROR_NOT_SUPPORTED";
        case kCaptureUnsupported:
            return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
        case kCaptureInvalidated:
            return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
        case kCaptureMerge:
            return "CUDA_ERROR_STREAM_CAPTURE_MERGE";
        case kCaptureUnmatched:
            return "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED";
        case kCaptureUnjoined:
            return "CUDA_ERROR_STREAM_CAPTURE_UNJOINED";
        case kCaptureIsolation:
            return "CUDA_ERROR_STREAM_CAPTURE_ISOLATION";
        case kCaptureImplicit:
            return "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
        case kCapturedEvent:
            return "CUDA_ERROR_CAPTURED_EVENT";
        case kCaptureWrongThread:
            return "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD";
        case kGraphUpdateFailure:
            return "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE";
        case kAlreadyRegistered:
            return "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED";
        case kNotRegistered:
            return "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED";
        case kContextIsDestroyed:
            return "CUDA_ERROR_CONTEXT_IS_DESTROYED";
        case kUnknown:
            return "CUDA_ERROR_UNKNOWN";
        default:
            return nullptr;
    }
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE(cuGetErrorName, (int error, const char **name), call(self, [&](const Call &) -> int {
                   if (name == nullptr) {
                       return kInvalidValue;
                   }
                   *name = error_name(error);
                   return *name == nullptr ? kInvalidValue : kSuccess;
               }))
STANDIN_DEFINE(cuGetProcAddress_v2,
               (const char *symbol, void **function, int version, std::uint64_t flags, int *status),
               call(self, [&](const Call &) {
                   return look_up(symbol, function, version, flags, status);
               }))

}  // extern "C"
