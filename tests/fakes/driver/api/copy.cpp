// The functions that copy.

#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/cuda.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/shapes.h"
#include "driver/truth_writer.h"

#include <algorithm>
#include <cstring>

namespace standin {
namespace {

using truth::CopyKind;
using truth::CopyMode;
using truth::Function;

void *at(DevicePointer address) {
    return reinterpret_cast<void *>(address);
}

// A copy that is done when the call returns is one that waits for its stream.
std::optional<int> captured_copy(const Call &open, CopyMode mode, Stream stream, CopyKind direction,
                                 std::size_t bytes, bool is_flat) {
    if (mode == CopyMode::sync) {
        const int error = forbidden_to_wait(OnStream{open.function, stream});
        return error == kSuccess ? std::nullopt : std::optional<int>(error);
    }
    return captured(open, stream, [&] {
        Work work;
        work.type = kCopyNode;
        work.direction = direction;
        work.bytes = bytes;
        work.is_flat = is_flat;
        return work;
    });
}

int copy_call(Function self, CopyMode mode, std::optional<CopyKind> kind, void *to,
              const void *from, std::size_t bytes, Stream stream = nullptr) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        if (bytes != 0 && (to == nullptr || from == nullptr)) {
            return kInvalidValue;
        }
        if (!is_stream(stream)) {
            return kInvalidResourceHandle;
        }
        run_hook(open);
        const auto found = copy_kind(is_device_memory(to), is_device_memory(from));
        const CopyKind direction = open.copy_kind.value_or(kind.value_or(found));
        if (const auto result = captured_copy(open, mode, stream, direction, bytes, true)) {
            return *result;
        }
        if (bytes != 0) {
            std::memmove(to, from, std::min(bytes, kCopiedForReal));
        }
        if (counts(open)) {
            count_copy(current.device, direction, mode, bytes);
        }
        return kSuccess;
    });
}

int peer_call(Function self, CopyMode mode, DevicePointer to, Context to_context,
              DevicePointer from, Context from_context, std::size_t bytes,
              Stream stream = nullptr) {
    if (!is_context(to_context) || !is_context(from_context)) {
        return call(self, [](const Call &) { return kInvalidContext; });
    }
    return copy_call(self, mode, CopyKind::d2d, at(to), at(from), bytes, stream);
}

// One end of a copy that has a shape.
struct End {
    int type;
    void *start;
    std::size_t pitch;
    std::size_t slice;  // bytes between planes
};

End end_of(int type, void *host, DevicePointer device, std::size_t pitch, std::size_t height) {
    return {type, type == kHostMemory ? host : at(device), pitch, pitch * height};
}

End to_end(const DriverCopy3D &copy) {
    return end_of(copy.to_type, copy.to_host, copy.to_device, copy.to_pitch, copy.to_height);
}

End from_end(const DriverCopy3D &copy) {
    return end_of(copy.from_type, const_cast<void *>(copy.from_host), copy.from_device,
                  copy.from_pitch, copy.from_height);
}

bool is_valid(const End &end, const DriverCopy3D &copy) {
    if (end.type != kHostMemory && end.type != kDeviceMemory && end.type != kUnifiedMemory) {
        return false;  // arrays are not offered
    }
    const bool rows = copy.height > 1 || copy.depth > 1;
    return end.start != nullptr && (!rows || end.pitch >= copy.width) &&
           (copy.depth <= 1 || end.slice >= end.pitch * copy.height);
}

bool is_on_device(const End &end) {
    return end.type == kDeviceMemory || (end.type == kUnifiedMemory && is_device_memory(end.start));
}

void copy_rows(const End &to, const End &from, const DriverCopy3D &copy) {
    std::size_t left = kCopiedForReal;
    for (std::size_t z = 0; z < copy.depth; ++z) {
        for (std::size_t y = 0; y < copy.height && left != 0; ++y) {
            const std::size_t bytes = std::min(copy.width, left);
            std::memmove(static_cast<char *>(to.start) + z * to.slice + y * to.pitch,
                         static_cast<const char *>(from.start) + z * from.slice + y * from.pitch,
                         bytes);
            left -= bytes;
        }
    }
}

int copy_shape(const Call &open, CopyMode mode, const DriverCopy3D &copy, Stream stream) {
    const Current current = current_context();
    if (current.error != kSuccess) {
        return current.error;
    }
    if (!is_stream(stream)) {
        return kInvalidResourceHandle;
    }
    CopyKind direction{};
    std::uint64_t bytes = 0;
    if (const int error = measure_copy(copy, direction, bytes); error != kSuccess) {
        return error;
    }
    direction = open.copy_kind.value_or(direction);
    run_hook(open);
    const bool is_flat = copy.height == 1 && copy.depth == 1;
    if (const auto result = captured_copy(open, mode, stream, direction, bytes, is_flat)) {
        return *result;
    }
    if (bytes != 0) {
        End to = to_end(copy);
        End from = from_end(copy);
        to.start =
            static_cast<char *>(to.start) + copy.to_x + copy.to_y * to.pitch + copy.to_z * to.slice;
        from.start = static_cast<char *>(from.start) + copy.from_x + copy.from_y * from.pitch +
                     copy.from_z * from.slice;
        copy_rows(to, from, copy);
    }
    if (counts(open)) {
        count_copy(current.device, direction, mode, bytes);
    }
    return kSuccess;
}

int shape_call(Function self, CopyMode mode, const DriverCopy3D *copy, Stream stream = nullptr) {
    return call(self, [&](const Call &open) -> int {
        return copy == nullptr ? kInvalidValue : copy_shape(open, mode, *copy, stream);
    });
}

int shape_call(Function self, CopyMode mode, const DriverCopy2D *flat, Stream stream = nullptr) {
    if (flat == nullptr) {
        return shape_call(self, mode, static_cast<const DriverCopy3D *>(nullptr));
    }
    DriverCopy3D copy;
    copy.from_x = flat->from_x;
    copy.from_y = flat->from_y;
    copy.from_type = flat->from_type;
    copy.from_host = flat->from_host;
    copy.from_device = flat->from_device;
    copy.from_pitch = flat->from_pitch;
    copy.to_x = flat->to_x;
    copy.to_y = flat->to_y;
    copy.to_type = flat->to_type;
    copy.to_host = flat->to_host;
    copy.to_device = flat->to_device;
    copy.to_pitch = flat->to_pitch;
    copy.width = flat->width;
    copy.height = flat->height;
    copy.depth = 1;
    return shape_call(self, mode, &copy, stream);
}

}  // namespace

int measure_copy(const DriverCopy3D &copy, CopyKind &direction, std::uint64_t &bytes) {
    const End to = to_end(copy);
    const End from = from_end(copy);
    bytes = copy.width * copy.height * copy.depth;
    if (bytes != 0 && (!is_valid(to, copy) || !is_valid(from, copy))) {
        return kInvalidValue;
    }
    direction = copy_kind(is_on_device(to), is_on_device(from));
    return kSuccess;
}

}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE_BOTH(cuMemcpy, _ptds, (DevicePointer to, DevicePointer from, std::size_t bytes),
                    copy_call(self, CopyMode::sync, {}, at(to), at(from), bytes))
STANDIN_DEFINE_BOTH(cuMemcpyAsync, _ptsz,
                    (DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream),
                    copy_call(self, CopyMode::async, {}, at(to), at(from), bytes, stream))
STANDIN_DEFINE_BOTH(cuMemcpyHtoD_v2, _ptds, (DevicePointer to, const void *from, std::size_t bytes),
                    copy_call(self, CopyMode::sync, CopyKind::h2d, at(to), from, bytes))
STANDIN_DEFINE_BOTH(cuMemcpyDtoH_v2, _ptds, (void *to, DevicePointer from, std::size_t bytes),
                    copy_call(self, CopyMode::sync, CopyKind::d2h, to, at(from), bytes))
STANDIN_DEFINE_BOTH(cuMemcpyDtoD_v2, _ptds,
                    (DevicePointer to, DevicePointer from, std::size_t bytes),
                    copy_call(self, CopyMode::sync, CopyKind::d2d, at(to), at(from), bytes))
STANDIN_DEFINE_BOTH(cuMemcpyHtoDAsync_v2, _ptsz,
                    (DevicePointer to, const void *from, std::size_t bytes, Stream stream),
                    copy_call(self, CopyMode::async, CopyKind::h2d, at(to), from, bytes, stream))
STANDIN_DEFINE_BOTH(cuMemcpyDtoHAsync_v2, _ptsz,
                    (void *to, DevicePointer from, std::size_t bytes, Stream stream),
                    copy_call(self, CopyMode::async, CopyKind::d2h, to, at(from), bytes, stream))
STANDIN_DEFINE_BOTH(cuMemcpyDtoDAsync_v2, _ptsz,
                    (DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream),
                    copy_call(self, CopyMode::async, CopyKind::d2d, at(to), at(from), bytes,
                              stream))

STANDIN_DEFINE_BOTH(cuMemcpy2D_v2, _ptds, (const DriverCopy2D *copy),
                    shape_call(self, CopyMode::sync, copy))
STANDIN_DEFINE_BOTH(cuMemcpy2DUnaligned_v2, _ptds, (const DriverCopy2D *copy),
                    shape_call(self, CopyMode::sync, copy))
STANDIN_DEFINE_BOTH(cuMemcpy2DAsync_v2, _ptsz, (const DriverCopy2D *copy, Stream stream),
                    shape_call(self, CopyMode::async, copy, stream))
STANDIN_DEFINE_BOTH(cuMemcpy3D_v2, _ptds, (const DriverCopy3D *copy),
                    shape_call(self, CopyMode::sync, copy))
STANDIN_DEFINE_BOTH(cuMemcpy3DAsync_v2, _ptsz, (const DriverCopy3D *copy, Stream stream),
                    shape_call(self, CopyMode::async, copy, stream))

STANDIN_DEFINE_BOTH(cuMemcpyPeer, _ptds,
                    (DevicePointer to, Context to_context, DevicePointer from, Context from_context,
                     std::size_t bytes),
                    peer_call(self, CopyMode::sync, to, to_context, from, from_context, bytes))
STANDIN_DEFINE_BOTH(cuMemcpyPeerAsync, _ptsz,
                    (DevicePointer to, Context to_context, DevicePointer from, Context from_context,
                     std::size_t bytes, Stream stream),
                    peer_call(self, CopyMode::async, to, to_context, from, from_context, bytes,
                              stream))

}  // extern "C"
