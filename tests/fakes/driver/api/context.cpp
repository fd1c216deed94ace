// Devices, contexts and streams; every stream is always done.

#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/cuda.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/truth_writer.h"

namespace standin {
namespace {

using truth::Function;

constexpr int kVersion = 13000;

template <typename Action>
int device_call(Function self, Device device, Action &&action) {
    return initialized_call(self, [&](const Call &open) -> int {
        return is_device(device) ? action(open) : static_cast<int>(kInvalidDevice);
    });
}

template <typename Value, typename Get>
int answer(Value *out, Get &&get) {
    if (out == nullptr) {
        return kInvalidValue;
    }
    *out = get();
    return kSuccess;
}

int new_context(Function self, Context *context, Device device) {
    return device_call(self, device, [&](const Call &) -> int {
        return context == nullptr ? kInvalidValue : create_context(context, device);
    });
}

int end_context(const Call &open, Context context) {
    run_hook(open);
    std::uint64_t id = 0;
    const int error = destroy_context(context, id);
    if (error == kSuccess) {
        count_reset(open, release_context(id));
    }
    return error;
}

int end_primary_reference(const Call &open, Device device) {
    std::uint64_t id = 0;
    const int error = release_primary(device, id);
    if (error == kSuccess) {
        count_reset(open, release_context(id));
    }
    return error;
}

int reset_primary(const Call &open, Device device) {
    run_hook(open);
    count_reset(open, release_context(primary_id(device)));
    return kSuccess;
}

// Of the locations, only devices have pools here, and each device has one.
int located_pool(Function self, MemoryPool *pool, const MemoryLocation *location) {
    if (location == nullptr || location->type != kOnDevice) {
        return call(self, [](const Call &) { return kInvalidValue; });
    }
    return device_call(self, location->id, [&](const Call &) {
        return answer(pool, [&] { return default_pool(location->id); });
    });
}

// `forbidden` says why it may not be done.
template <typename Forbidden>
int synchronize(Function self, Stream stream, Forbidden &&forbidden) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        if (!is_stream(stream)) {
            return kInvalidResourceHandle;
        }
        if (const int error = forbidden(current); error != kSuccess) {
            return error;
        }
        if (counts(open)) {
            count_synchronization(current.device);
        }
        run_hook(open);
        return kSuccess;
    });
}

int synchronize(Function self, Stream stream) {
    return synchronize(self, stream,
                       [&](const Current &) { return forbidden_to_wait({self, stream}); });
}

int new_stream(Stream *stream, unsigned flags) {
    const Current current = current_context();
    if (current.error != kSuccess) {
        return current.error;
    }
    if (stream == nullptr) {
        return kInvalidValue;
    }
    create_stream(stream, flags != kNonBlockingStream, {current.device, current.id});
    return kSuccess;
}

// Any context stands for a green one here, and none for the current one.
int new_stream_of(Context context, Stream *stream, unsigned flags) {
    if (context == nullptr) {
        return new_stream(stream, flags);
    }
    if (const int error = push_context(context); error != kSuccess) {
        return error;
    }
    const int error = new_stream(stream, flags);
    (void)pop_context(nullptr);
    return error;
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE(cuInit, (unsigned flags), call(self, [&](const Call &) -> int {
                   if (flags != 0) {
                       return kInvalidValue;
                   }
                   initialize_driver();
                   return device_count() == 0 ? kNoDevice : kSuccess;
               }))
STANDIN_DEFINE(cuDriverGetVersion, (int *version),
               call(self, [&](const Call &) { return answer(version, [] { return kVersion; }); }))
STANDIN_DEFINE(cuDeviceGetCount, (int *count),
               initialized_call(self, [&](const Call &) { return answer(count, device_count); }))
STANDIN_DEFINE(cuDeviceGet, (Device * device, int ordinal),
               device_call(self, ordinal,
                           [&](const Call &) { return answer(device, [&] { return ordinal; }); }))
STANDIN_DEFINE(cuDeviceGetDefaultMemPool, (MemoryPool * pool, Device device),
               device_call(self, device, [&](const Call &) {
                   return answer(pool, [&] { return default_pool(device); });
               }))
STANDIN_DEFINE(cuDeviceGetMemPool, (MemoryPool * pool, Device device),
               device_call(self, device, [&](const Call &) {
                   return answer(pool, [&] { return default_pool(device); });
               }))

STANDIN_DEFINE(cuMemGetDefaultMemPool, (MemoryPool * pool, MemoryLocation *location, int /*type*/),
               located_pool(self, pool, location))
STANDIN_DEFINE(cuMemGetMemPool, (MemoryPool * pool, MemoryLocation *location, int /*type*/),
               located_pool(self, pool, location))

STANDIN_DEFINE(cuDevicePrimaryCtxRetain, (Context * context, Device device),
               device_call(self, device, [&](const Call &) -> int {
                   return context == nullptr ? kInvalidValue : retain_primary(context, device);
               }))
STANDIN_DEFINE(cuDevicePrimaryCtxRelease_v2, (Device device),
               device_call(self, device,
                           [&](const Call &open) { return end_primary_reference(open, device); }))
STANDIN_DEFINE(cuDevicePrimaryCtxReset_v2, (Device device),
               device_call(self, device,
                           [&](const Call &open) { return reset_primary(open, device); }))

STANDIN_DEFINE(cuCtxCreate_v2, (Context * context, unsigned /*flags*/, Device device),
               new_context(self, context, device))
STANDIN_DEFINE(cuCtxCreate_v3,
               (Context * context, void * /*affinities*/, int /*affinity_count*/,
                unsigned /*flags*/, Device device),
               new_context(self, context, device))
STANDIN_DEFINE(cuCtxCreate_v4,
               (Context * context, ContextParameters * /*parameters*/, unsigned /*flags*/,
                Device device),
               new_context(self, context, device))
STANDIN_DEFINE(cuCtxDestroy_v2, (Context context),
               initialized_call(self, [&](const Call &open) { return end_context(open, context); }))
STANDIN_DEFINE(cuCtxSetCurrent, (Context context),
               initialized_call(self, [&](const Call &) { return set_current_context(context); }))
STANDIN_DEFINE(cuCtxGetCurrent, (Context * context), initialized_call(self, [&](const Call &) {
                   return answer(context, current_handle);
               }))
STANDIN_DEFINE(cuCtxPushCurrent_v2, (Context context),
               initialized_call(self, [&](const Call &) { return push_context(context); }))
STANDIN_DEFINE(cuCtxPopCurrent_v2, (Context * context),
               initialized_call(self, [&](const Call &) { return pop_context(context); }))
STANDIN_DEFINE(cuCtxGetDevice, (Device * device), call(self, [&](const Call &) -> int {
                   const Current current = current_context();
                   return current.error != kSuccess
                              ? current.error
                              : answer(device, [&] { return current.device; });
               }))
STANDIN_DEFINE(cuCtxSynchronize, (), synchronize(self, nullptr, [](const Current &current) {
                   return forbidden_to_wait_for_context(current.id);
               }))

STANDIN_DEFINE(cuStreamCreate, (Stream * stream, unsigned flags),
               call(self, [&](const Call &) { return new_stream(stream, flags); }))
STANDIN_DEFINE(cuStreamCreateWithPriority, (Stream * stream, unsigned flags, int /*priority*/),
               call(self, [&](const Call &) { return new_stream(stream, flags); }))
STANDIN_DEFINE(cuGreenCtxStreamCreate,
               (Stream * stream, Context context, unsigned flags, int /*priority*/),
               call(self, [&](const Call &) { return new_stream_of(context, stream, flags); }))
STANDIN_DEFINE(cuStreamDestroy_v2, (Stream stream), call(self, [&](const Call &) {
                   forget_stream(stream);
                   return destroy_stream(stream);
               }))
STANDIN_DEFINE_BOTH(cuStreamSynchronize, _ptsz, (Stream stream), synchronize(self, stream))

}  // extern "C"
