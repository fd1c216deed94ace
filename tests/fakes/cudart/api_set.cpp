// The functions that fill memory.

#include "cudart/call.h"

namespace standin {
namespace {

using truth::Function;

template <typename... Parameters, typename... Arguments>
int set_call(Function self, int (*function)(Parameters...), Arguments... arguments) {
    return call(self, [&](const Call &open) -> int {
        if (const int error = use_device(); error != kSuccess) {
            return error;
        }
        core().run_hook(open);
        return on_behalf(open, {}, function, arguments...);
    });
}

// Plane by plane. The last one, which fails if any does, stands for all.
template <typename... Streams>
int planes_call(Function self,
                int (*function)(DevicePointer, std::size_t, std::uint8_t, std::size_t, std::size_t,
                                Streams...),
                const PitchedPointer &to, int value, const Extent &extent, Streams... stream) {
    return call(self, [&](const Call &open) -> int {
        if (const int error = use_device(); error != kSuccess) {
            return error;
        }
        core().run_hook(open);
        const std::size_t plane = to.pitch * to.height;
        const auto byte = static_cast<std::uint8_t>(value);
        const OnBehalf all{{}, extent.width * extent.height * extent.depth};
        if (*all.bytes == 0) {
            return on_behalf(open, all, function, DevicePointer{0}, to.pitch, byte, std::size_t{0},
                             std::size_t{0}, stream...);
        }
        for (std::size_t z = extent.depth - 1; z != 0; --z) {
            const DevicePointer start = address(to.pointer) + z * plane;
            const int error =
                z == extent.depth - 1
                    ? on_behalf(open, all, function, start, to.pitch, byte, extent.width,
                                extent.height, stream...)
                    : function(start, to.pitch, byte, extent.width, extent.height, stream...);
            if (error != kSuccess) {
                return error;
            }
        }
        if (extent.depth == 1) {
            return on_behalf(open, all, function, address(to.pointer), to.pitch, byte, extent.width,
                             extent.height, stream...);
        }
        return function(address(to.pointer), to.pitch, byte, extent.width, extent.height,
                        stream...);
    });
}

std::uint8_t byte(int value) {
    return static_cast<std::uint8_t>(value);
}

}  // namespace
}  // namespace standin

using namespace standin;

#define STANDIN_DEFINE_SETS(sync_suffix, async_suffix)                                             \
    STANDIN_DEFINE(                                                                                \
        cudaMemset##sync_suffix, (void *to, int value, std::size_t bytes),                         \
        set_call(self, driver().cuMemsetD8_v2##sync_suffix, address(to), byte(value), bytes))      \
    STANDIN_DEFINE(cudaMemsetAsync##async_suffix,                                                  \
                   (void *to, int value, std::size_t bytes, Stream stream),                        \
                   set_call(self, driver().cuMemsetD8Async##async_suffix, address(to),             \
                            byte(value), bytes, stream))                                           \
    STANDIN_DEFINE(                                                                                \
        cudaMemset2D##sync_suffix,                                                                 \
        (void *to, std::size_t pitch, int value, std::size_t width, std::size_t height),           \
        set_call(self, driver().cuMemsetD2D8_v2##sync_suffix, address(to), pitch, byte(value),     \
                 width, height))                                                                   \
    STANDIN_DEFINE(cudaMemset2DAsync##async_suffix,                                                \
                   (void *to, std::size_t pitch, int value, std::size_t width, std::size_t height, \
                    Stream stream),                                                                \
                   set_call(self, driver().cuMemsetD2D8Async##async_suffix, address(to), pitch,    \
                            byte(value), width, height, stream))                                   \
    STANDIN_DEFINE(cudaMemset3D##sync_suffix, (PitchedPointer to, int value, Extent extent),       \
                   planes_call(self, driver().cuMemsetD2D8_v2##sync_suffix, to, value, extent))    \
    STANDIN_DEFINE(                                                                                \
        cudaMemset3DAsync##async_suffix,                                                           \
        (PitchedPointer to, int value, Extent extent, Stream stream),                              \
        planes_call(self, driver().cuMemsetD2D8Async##async_suffix, to, value, extent, stream))

extern "C" {

STANDIN_DEFINE_SETS(, )
STANDIN_DEFINE_SETS(_ptds, _ptsz)

}  // extern "C"
