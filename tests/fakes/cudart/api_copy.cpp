// The functions that copy.

#include "cudart/copies.h"
#include "cudart/registry.h"

namespace standin {
namespace {

using truth::CopyKind;
using truth::Function;

// What the driver has for each direction. `Streams` is empty, or Stream.
template <typename... Streams>
struct LinearCopies {
    int (*to_device)(DevicePointer, const void *, std::size_t, Streams...);
    int (*to_host)(void *, DevicePointer, std::size_t, Streams...);
    int (*on_device)(DevicePointer, DevicePointer, std::size_t, Streams...);
    int (*any)(DevicePointer, DevicePointer, std::size_t, Streams...);
};

#define STANDIN_SYNC_COPIES(suffix)                                         \
    LinearCopies<> {                                                        \
        driver().cuMemcpyHtoD_v2##suffix, driver().cuMemcpyDtoH_v2##suffix, \
            driver().cuMemcpyDtoD_v2##suffix, driver().cuMemcpy##suffix     \
    }
#define STANDIN_ASYNC_COPIES(suffix)                                                  \
    LinearCopies<Stream> {                                                            \
        driver().cuMemcpyHtoDAsync_v2##suffix, driver().cuMemcpyDtoHAsync_v2##suffix, \
            driver().cuMemcpyDtoDAsync_v2##suffix, driver().cuMemcpyAsync##suffix     \
    }

// A real copy of pageable memory may need a staging buffer.
void nest_in_copy(const Call &open) {
    if (core().nesting() && open.outermost) {
        void *staging = nullptr;
        if (cudaMalloc(&staging, 64) == kSuccess) {
            cudaFree(staging);
        }
    }
}

// `kind` is what a default direction turns out to be, if that is known here.
template <typename... Streams>
int copy_linear(const Call &open, const LinearCopies<Streams...> &copies, void *to,
                const void *from, std::size_t bytes, int direction, std::optional<CopyKind> kind,
                Streams... stream) {
    switch (direction) {
        case kHostToDevice:
            return on_behalf(open, {}, copies.to_device, address(to), from, bytes, stream...);
        case kDeviceToHost:
            return on_behalf(open, {}, copies.to_host, to, address(from), bytes, stream...);
        case kDeviceToDevice:
            return on_behalf(open, {}, copies.on_device, address(to), address(from), bytes,
                             stream...);
        case kHostToHost:
            return on_behalf(open, {CopyKind::h2h, {}}, copies.any, address(to), address(from),
                             bytes, stream...);
        default:
            return on_behalf(open, {kind, {}}, copies.any, address(to), address(from), bytes,
                             stream...);
    }
}

template <typename... Streams>
int linear_call(Function self, const LinearCopies<Streams...> &copies, void *to, const void *from,
                std::size_t bytes, int direction, Streams... stream) {
    return call(self, [&](const Call &open) -> int {
        if (!is_direction(direction)) {
            return kInvalidMemcpyDirection;
        }
        if (bytes != 0 && (to == nullptr || from == nullptr)) {
            return kInvalidValue;
        }
        if (const int error = use_device(); error != kSuccess) {
            return error;
        }
        core().run_hook(open);
        if (self == Function::k_cudaMemcpy) {
            nest_in_copy(open);
        }
        return copy_linear(open, copies, to, from, bytes, direction, {}, stream...);
    });
}

// Between a symbol and `other`, which is at the other end.
template <typename... Streams>
int symbol_call(Function self, const LinearCopies<Streams...> &copies, const void *symbol,
                bool to_symbol, const void *other, std::size_t bytes, std::size_t offset,
                int direction, Streams... stream) {
    return call(self, [&](const Call &open) -> int {
        if (direction != kDefault && direction != kDeviceToDevice &&
            direction != (to_symbol ? kHostToDevice : kDeviceToHost)) {
            return kInvalidMemcpyDirection;
        }
        const Variable variable = device_variable(symbol);
        if (variable.start == nullptr) {
            return kInvalidSymbol;
        }
        if (other == nullptr || offset > variable.bytes || bytes > variable.bytes - offset) {
            return kInvalidValue;
        }
        if (const int error = use_device(); error != kSuccess) {
            return error;
        }
        core().run_hook(open);
        void *inside = static_cast<char *>(variable.start) + offset;
        const bool both_on_device = core().is_device_memory(other);
        if (to_symbol) {
            return copy_linear(open, copies, inside, other, bytes, direction,
                               both_on_device ? CopyKind::d2d : CopyKind::h2d, stream...);
        }
        return copy_linear(open, copies, const_cast<void *>(other), inside, bytes, direction,
                           both_on_device ? CopyKind::d2d : CopyKind::d2h, stream...);
    });
}

template <typename... Streams>
int flat_call(Function self, int (*function)(const DriverCopy2D *, Streams...), void *to,
              std::size_t to_pitch, const void *from, std::size_t from_pitch, std::size_t width,
              std::size_t height, int direction, Streams... stream) {
    return call(self, [&](const Call &open) -> int {
        if (!is_direction(direction)) {
            return kInvalidMemcpyDirection;
        }
        if (width > to_pitch || width > from_pitch) {
            return kInvalidPitchValue;
        }
        if (const int error = use_device(); error != kSuccess) {
            return error;
        }
        core().run_hook(open);
        DriverCopy2D copy;
        set_ends(copy, from, to, direction);
        copy.from_pitch = from_pitch;
        copy.to_pitch = to_pitch;
        copy.width = width;
        copy.height = height;
        return on_behalf(open, {}, function, static_cast<const DriverCopy2D *>(&copy), stream...);
    });
}

template <typename... Streams>
int deep_call(Function self, int (*function)(const DriverCopy3D *, Streams...),
              const Copy3D *parameters, std::optional<CopyKind> kind, Streams... stream) {
    return call(self, [&](const Call &open) -> int {
        if (parameters == nullptr || parameters->from_array != nullptr ||
            parameters->to_array != nullptr) {
            return kInvalidValue;
        }
        if (!is_direction(parameters->direction)) {
            return kInvalidMemcpyDirection;
        }
        if (const int error = use_device(); error != kSuccess) {
            return error;
        }
        core().run_hook(open);
        const DriverCopy3D copy = driver_copy(*parameters);
        return on_behalf(open, {kind, {}}, function, static_cast<const DriverCopy3D *>(&copy),
                         stream...);
    });
}

template <typename... Streams>
int deep_peer_call(Function self, int (*function)(const DriverCopy3D *, Streams...),
                   const Copy3DPeer *parameters, Streams... stream) {
    if (parameters == nullptr) {
        return deep_call(self, function, nullptr, {}, stream...);
    }
    const Copy3D same{parameters->from_array,  parameters->from_position,
                      parameters->from,        parameters->to_array,
                      parameters->to_position, parameters->to,
                      parameters->extent,      kDeviceToDevice};
    return deep_call(self, function, &same, CopyKind::d2d, stream...);
}

template <typename... Streams>
int peer_call(Function self,
              int (*function)(DevicePointer, Context, DevicePointer, Context, std::size_t,
                              Streams...),
              void *to, int to_device, const void *from, int from_device, std::size_t bytes,
              Streams... stream) {
    return call(self, [&](const Call &open) -> int {
        Context to_context = nullptr;
        Context from_context = nullptr;
        int error = use_device();
        error = error == kSuccess ? primary_context(to_device, to_context) : error;
        error = error == kSuccess ? primary_context(from_device, from_context) : error;
        if (error != kSuccess) {
            return error;
        }
        core().run_hook(open);
        return on_behalf(open, {}, function, address(to), to_context, address(from), from_context,
                         bytes, stream...);
    });
}

}  // namespace
}  // namespace standin

using namespace standin;

// Each with its variant for per-thread default streams, which calls the driver's variant.
#define STANDIN_DEFINE_COPIES(sync_suffix, async_suffix)                                           \
    STANDIN_DEFINE(                                                                                \
        cudaMemcpy##sync_suffix, (void *to, const void *from, std::size_t bytes, int direction),   \
        linear_call(self, STANDIN_SYNC_COPIES(sync_suffix), to, from, bytes, direction))           \
    STANDIN_DEFINE(                                                                                \
        cudaMemcpyAsync##async_suffix,                                                             \
        (void *to, const void *from, std::size_t bytes, int direction, Stream stream),             \
        linear_call(self, STANDIN_ASYNC_COPIES(async_suffix), to, from, bytes, direction, stream)) \
    STANDIN_DEFINE(cudaMemcpy2D##sync_suffix,                                                      \
                   (void *to, std::size_t to_pitch, const void *from, std::size_t from_pitch,      \
                    std::size_t width, std::size_t height, int direction),                         \
                   flat_call(self, driver().cuMemcpy2DUnaligned_v2##sync_suffix, to, to_pitch,     \
                             from, from_pitch, width, height, direction))                          \
    STANDIN_DEFINE(cudaMemcpy2DAsync##async_suffix,                                                \
                   (void *to, std::size_t to_pitch, const void *from, std::size_t from_pitch,      \
                    std::size_t width, std::size_t height, int direction, Stream stream),          \
                   flat_call(self, driver().cuMemcpy2DAsync_v2##async_suffix, to, to_pitch, from,  \
                             from_pitch, width, height, direction, stream))                        \
    STANDIN_DEFINE(cudaMemcpy3D##sync_suffix, (const Copy3D *copy),                                \
                   deep_call(self, driver().cuMemcpy3D_v2##sync_suffix, copy, {}))                 \
    STANDIN_DEFINE(cudaMemcpy3DAsync##async_suffix, (const Copy3D *copy, Stream stream),           \
                   deep_call(self, driver().cuMemcpy3DAsync_v2##async_suffix, copy, {}, stream))   \
    STANDIN_DEFINE(cudaMemcpy3DPeer##sync_suffix, (const Copy3DPeer *copy),                        \
                   deep_peer_call(self, driver().cuMemcpy3D_v2##sync_suffix, copy))                \
    STANDIN_DEFINE(cudaMemcpy3DPeerAsync##async_suffix, (const Copy3DPeer *copy, Stream stream),   \
                   deep_peer_call(self, driver().cuMemcpy3DAsync_v2##async_suffix, copy, stream))  \
    STANDIN_DEFINE(cudaMemcpyToSymbol##sync_suffix,                                                \
                   (const void *symbol, const void *from, std::size_t bytes, std::size_t offset,   \
                    int direction),                                                                \
                   symbol_call(self, STANDIN_SYNC_COPIES(sync_suffix), symbol, true, from, bytes,  \
                               offset, direction))                                                 \
    STANDIN_DEFINE(cudaMemcpyToSymbolAsync##async_suffix,                                          \
                   (const void *symbol, const void *from, std::size_t bytes, std::size_t offset,   \
                    int direction, Stream stream),                                                 \
                   symbol_call(self, STANDIN_ASYNC_COPIES(async_suffix), symbol, true, from,       \
                               bytes, offset, direction, stream))                                  \
    STANDIN_DEFINE(                                                                                \
        cudaMemcpyFromSymbol##sync_suffix,                                                         \
        (void *to, const void *symbol, std::size_t bytes, std::size_t offset, int direction),      \
        symbol_call(self, STANDIN_SYNC_COPIES(sync_suffix), symbol, false, to, bytes, offset,      \
                    direction))                                                                    \
    STANDIN_DEFINE(cudaMemcpyFromSymbolAsync##async_suffix,                                        \
                   (void *to, const void *symbol, std::size_t bytes, std::size_t offset,           \
                    int direction, Stream stream),                                                 \
                   symbol_call(self, STANDIN_ASYNC_COPIES(async_suffix), symbol, false, to, bytes, \
                               offset, direction, stream))

extern "C" {

STANDIN_DEFINE_COPIES(, )
STANDIN_DEFINE_COPIES(_ptds, _ptsz)

STANDIN_DEFINE(cudaMemcpyPeer,
               (void *to, int to_device, const void *from, int from_device, std::size_t bytes),
               peer_call(self, driver().cuMemcpyPeer, to, to_device, from, from_device, bytes))
STANDIN_DEFINE(cudaMemcpyPeerAsync,
               (void *to, int to_device, const void *from, int from_device, std::size_t bytes,
                Stream stream),
               peer_call(self, driver().cuMemcpyPeerAsync, to, to_device, from, from_device, bytes,
                         stream))

}  // extern "C"
