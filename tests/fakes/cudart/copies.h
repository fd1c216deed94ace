// What the driver calls a copy that the runtime is asked for.

#pragma once

#include "cudart/call.h"

namespace standin {

inline bool is_direction(int direction) {
    return direction >= kHostToHost && direction <= kDefault;
}

template <typename Copy>
void set_ends(Copy &copy, const void *from, void *to, int direction) {
    const bool from_host = direction == kHostToHost || direction == kHostToDevice;
    const bool to_host = direction == kHostToHost || direction == kDeviceToHost;
    const int on_device = direction == kDefault ? kUnifiedMemory : kDeviceMemory;
    copy.from_type = from_host ? static_cast<int>(kHostMemory) : on_device;
    copy.to_type = to_host ? static_cast<int>(kHostMemory) : on_device;
    copy.from_host = from_host ? from : nullptr;
    copy.from_device = from_host ? 0 : address(from);
    copy.to_host = to_host ? to : nullptr;
    copy.to_device = to_host ? 0 : address(to);
}

inline DriverCopy3D driver_copy(const Copy3D &wanted) {
    DriverCopy3D copy;
    set_ends(copy, wanted.from.pointer, wanted.to.pointer, wanted.direction);
    copy.from_x = wanted.from_position.x;
    copy.from_y = wanted.from_position.y;
    copy.from_z = wanted.from_position.z;
    copy.from_pitch = wanted.from.pitch;
    copy.from_height = wanted.from.height;
    copy.to_x = wanted.to_position.x;
    copy.to_y = wanted.to_position.y;
    copy.to_z = wanted.to_position.z;
    copy.to_pitch = wanted.to.pitch;
    copy.to_height = wanted.to.height;
    copy.width = wanted.extent.width;
    copy.height = wanted.extent.height;
    copy.depth = wanted.extent.depth;
    return copy;
}

// Of so many bytes side by side.
inline DriverCopy3D driver_copy(void *to, const void *from, std::size_t bytes, int direction) {
    DriverCopy3D copy;
    set_ends(copy, from, to, direction);
    copy.from_pitch = bytes;
    copy.to_pitch = bytes;
    copy.from_height = 1;
    copy.to_height = 1;
    copy.width = bytes;
    copy.height = 1;
    copy.depth = 1;
    return copy;
}

}  // namespace standin
