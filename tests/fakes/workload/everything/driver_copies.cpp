// Copies.

#include "workload/everything/batches.h"
#include "workload/everything/driver.h"

namespace demo {
namespace {

using standin::Context;
using standin::DevicePointer;
using standin::kSuccess;
using truth::CopyKind;
using truth::CopyMode;

// The first two parameters are an address of the device's or a pointer, each.
template <typename To, typename From, typename... Stream>
void copy(Everything &all, CopyMode mode, const Ends &between,
          const Named<To, From, std::size_t, Stream...> &function, Stream... stream) {
    const std::size_t bytes = all.random(Everything::kRoom + 1);
    if (between &&
        all.make(function, (To)between.to, (From)between.from, bytes, stream...) == kSuccess) {
        all.note_copy(between.kind(), mode, bytes);
    }
}

// An end as the driver has it: its memory type, and its pointer in one of two members.
template <typename Copy>
void set_ends(Everything &all, const Ends &between, Copy &copy) {
    const auto type = [&all](bool on_device) {
        return all.random(4) == 0
                   ? static_cast<int>(standin::kUnifiedMemory)
                   : static_cast<int>(on_device ? standin::kDeviceMemory : standin::kHostMemory);
    };
    copy.to_type = type(between.to_device);
    copy.from_type = type(between.from_device);
    if (copy.to_type == standin::kHostMemory) {
        copy.to_host = between.to;
    } else {
        copy.to_device = at(between.to);
    }
    if (copy.from_type == standin::kHostMemory) {
        copy.from_host = between.from;
    } else {
        copy.from_device = at(between.from);
    }
    copy.to_pitch = kPitch;
    copy.from_pitch = kPitch;
}

template <typename... Stream>
void copy_rows(Everything &all, CopyMode mode,
               const Named<const standin::DriverCopy2D *, Stream...> &function, Stream... stream) {
    const Ends between = random_ends(all);
    const Shape shape = random_shape(all);
    standin::DriverCopy2D parameters;
    set_ends(all, between, parameters);
    parameters.width = shape.width;
    parameters.height = shape.height;
    if (between && all.make(function, &parameters, stream...) == kSuccess) {
        all.note_copy(between.kind(), mode, shape.width * shape.height);
    }
}

template <typename... Stream>
void copy_planes(Everything &all, CopyMode mode,
                 const Named<const standin::DriverCopy3D *, Stream...> &function,
                 Stream... stream) {
    const Ends between = random_ends(all);
    const Shape shape = random_shape(all);
    standin::DriverCopy3D parameters;
    set_ends(all, between, parameters);
    parameters.to_height = kRows;
    parameters.from_height = kRows;
    parameters.width = shape.width;
    parameters.height = shape.height;
    parameters.depth = shape.depth;
    if (between && all.make(function, &parameters, stream...) == kSuccess) {
        all.note_copy(between.kind(), mode, shape.bytes());
    }
}

template <typename... Stream>
void copy_to_peer(
    Everything &all, const DriverState &state, CopyMode mode,
    const Named<DevicePointer, Context, DevicePointer, Context, std::size_t, Stream...> &function,
    Stream... stream) {
    const Ends between = ends(all, true, true);
    const std::size_t bytes = all.random(Everything::kRoom + 1);
    const Context to = state.primary[static_cast<std::size_t>(any_device(all, state))];
    const Context from = state.primary[static_cast<std::size_t>(any_device(all, state))];
    if (between && all.make(function, at(between.to), to, at(between.from), from, bytes,
                            stream...) == kSuccess) {
        all.note_copy(CopyKind::d2d, mode, bytes);
    }
}

}  // namespace

void add_driver_copies(Everything &all, const DriverState &state) {
    auto add = [&all](auto action) { all.actions.emplace_back(action); };
    constexpr auto kSync = CopyMode::sync;
    constexpr auto kAsync = CopyMode::async;
    const auto stream = [&all, &state] { return any_stream(all, state); };
    const auto any = [&all] { return random_ends(all); };
    const auto up = [&all] { return ends(all, true, false); };
    const auto down = [&all] { return ends(all, false, true); };
    const auto across = [&all] { return ends(all, true, true); };
    add([=, &all] { copy(all, kSync, any(), DRIVER(cuMemcpy)); });
    add([=, &all] { copy(all, kSync, any(), DRIVER(cuMemcpy_ptds)); });
    add([=, &all] { copy(all, kAsync, any(), DRIVER(cuMemcpyAsync), stream()); });
    add([=, &all] { copy(all, kAsync, any(), DRIVER(cuMemcpyAsync_ptsz), stream()); });
    add([=, &all] { copy(all, kSync, up(), DRIVER(cuMemcpyHtoD_v2)); });
    add([=, &all] { copy(all, kSync, up(), DRIVER(cuMemcpyHtoD_v2_ptds)); });
    add([=, &all] { copy(all, kSync, down(), DRIVER(cuMemcpyDtoH_v2)); });
    add([=, &all] { copy(all, kSync, down(), DRIVER(cuMemcpyDtoH_v2_ptds)); });
    add([=, &all] { copy(all, kSync, across(), DRIVER(cuMemcpyDtoD_v2)); });
    add([=, &all] { copy(all, kSync, across(), DRIVER(cuMemcpyDtoD_v2_ptds)); });
    add([=, &all] { copy(all, kAsync, up(), DRIVER(cuMemcpyHtoDAsync_v2), stream()); });
    add([=, &all] { copy(all, kAsync, up(), DRIVER(cuMemcpyHtoDAsync_v2_ptsz), stream()); });
    add([=, &all] { copy(all, kAsync, down(), DRIVER(cuMemcpyDtoHAsync_v2), stream()); });
    add([=, &all] { copy(all, kAsync, down(), DRIVER(cuMemcpyDtoHAsync_v2_ptsz), stream()); });
    add([=, &all] { copy(all, kAsync, across(), DRIVER(cuMemcpyDtoDAsync_v2), stream()); });
    add([=, &all] { copy(all, kAsync, across(), DRIVER(cuMemcpyDtoDAsync_v2_ptsz), stream()); });
    add([=, &all] { copy_rows(all, kSync, DRIVER(cuMemcpy2D_v2)); });
    add([=, &all] { copy_rows(all, kSync, DRIVER(cuMemcpy2D_v2_ptds)); });
    add([=, &all] { copy_rows(all, kSync, DRIVER(cuMemcpy2DUnaligned_v2)); });
    add([=, &all] { copy_rows(all, kSync, DRIVER(cuMemcpy2DUnaligned_v2_ptds)); });
    add([=, &all] { copy_rows(all, kAsync, DRIVER(cuMemcpy2DAsync_v2), stream()); });
    add([=, &all] { copy_rows(all, kAsync, DRIVER(cuMemcpy2DAsync_v2_ptsz), stream()); });
    add([=, &all] { copy_planes(all, kSync, DRIVER(cuMemcpy3D_v2)); });
    add([=, &all] { copy_planes(all, kSync, DRIVER(cuMemcpy3D_v2_ptds)); });
    add([=, &all] { copy_planes(all, kAsync, DRIVER(cuMemcpy3DAsync_v2), stream()); });
    add([=, &all] { copy_planes(all, kAsync, DRIVER(cuMemcpy3DAsync_v2_ptsz), stream()); });
    add([=, &all] { copy_batch(all, DRIVER(cuMemcpyBatchAsync), stream()); });
    add([=, &all] { copy_batch(all, DRIVER(cuMemcpyBatchAsync_ptsz), stream()); });
    add([=, &all] { copy_batch(all, DRIVER(cuMemcpyBatchAsync_v2), stream()); });
    add([=, &all] { copy_batch(all, DRIVER(cuMemcpyBatchAsync_v2_ptsz), stream()); });
    add([=, &all] { copy_batch_3d(all, DRIVER(cuMemcpy3DBatchAsync), stream()); });
    add([=, &all] { copy_batch_3d(all, DRIVER(cuMemcpy3DBatchAsync_ptsz), stream()); });
    add([=, &all] { copy_batch_3d(all, DRIVER(cuMemcpy3DBatchAsync_v2), stream()); });
    add([=, &all] { copy_batch_3d(all, DRIVER(cuMemcpy3DBatchAsync_v2_ptsz), stream()); });
    add([=, &all, &state] { copy_to_peer(all, state, kSync, DRIVER(cuMemcpyPeer)); });
    add([=, &all, &state] { copy_to_peer(all, state, kSync, DRIVER(cuMemcpyPeer_ptds)); });
    add([=, &all, &state] {
        copy_to_peer(all, state, kAsync, DRIVER(cuMemcpyPeerAsync), stream());
    });
    add([=, &all, &state] {
        copy_to_peer(all, state, kAsync, DRIVER(cuMemcpyPeerAsync_ptsz), stream());
    });
}

}  // namespace demo
