// What launches, copies and memsets have to be, of a stream or as nodes of a graph.

#pragma once

#include "cuda_types.h"
#include "truth.h"

#include <cstddef>
#include <cstdint>

namespace standin {

bool is_launch_shape(Dim3 grid, Dim3 block);  // api_launch.cpp

// Of a copy, where that is not given.
inline truth::CopyKind copy_kind(bool to_device, bool from_device) {
    return static_cast<truth::CopyKind>((to_device ? 1 : 0) + (from_device ? 2 : 0));
}
inline constexpr std::size_t kCopiedForReal = std::size_t{1} << 20U;  // of a longer copy

// Returns an error code; api_copy.cpp.
int measure_copy(const DriverCopy3D &copy, truth::CopyKind &direction, std::uint64_t &bytes);

// False for a shape that cannot be. `span` is from the first byte to the last; api_set.cpp.
bool measure_set(DevicePointer to, std::size_t pitch, std::size_t element_bytes, std::size_t width,
                 std::size_t height, std::size_t &bytes, std::size_t &span);

// Now; api/event.cpp.
int record_event(Event event);

}  // namespace standin
