// Copies and memsets.

#include "workload/everything/batches.h"
#include "workload/everything/runtime.h"

#include "workload/kernels.h"

namespace demo {
namespace {

using standin::kSuccess;
using truth::CopyKind;
using truth::CopyMode;

int direction_of(Everything &all, const Ends &between) {
    return all.options().default_kind && all.coin() ? static_cast<int>(standin::kDefault)
                                                    : between.direction();
}

template <typename... Stream>
void copy(Everything &all, CopyMode mode,
          const Named<void *, const void *, std::size_t, int, Stream...> &function,
          Stream... stream) {
    const Ends between = random_ends(all);
    const std::size_t bytes = all.random(Everything::kRoom + 1);
    if (between && all.make(function, between.to, between.from, bytes, direction_of(all, between),
                            stream...) == kSuccess) {
        all.note_copy(between.kind(), mode, bytes);
    }
}

template <typename... Stream>
void copy_rows(Everything &all, CopyMode mode,
               const Named<void *, std::size_t, const void *, std::size_t, std::size_t, std::size_t,
                           int, Stream...> &function,
               Stream... stream) {
    const Ends between = random_ends(all);
    const Shape shape = random_shape(all);
    if (between && all.make(function, between.to, kPitch, between.from, kPitch, shape.width,
                            shape.height, direction_of(all, between), stream...) == kSuccess) {
        all.note_copy(between.kind(), mode, shape.width * shape.height);
    }
}

template <typename... Stream>
void copy_planes(Everything &all, CopyMode mode,
                 const Named<const standin::Copy3D *, Stream...> &function, Stream... stream) {
    const Ends between = random_ends(all);
    const Shape shape = random_shape(all);
    standin::Copy3D parameters;
    parameters.from = {between.from, kPitch, shape.width, kRows};
    parameters.to = {between.to, kPitch, shape.width, kRows};
    parameters.extent = {shape.width, shape.height, shape.depth};
    parameters.direction = direction_of(all, between);
    if (between && all.make(function, &parameters, stream...) == kSuccess) {
        all.note_copy(between.kind(), mode, shape.bytes());
    }
}

int any_device(Everything &all, const RuntimeState &state) {
    return static_cast<int>(all.random(static_cast<std::uint64_t>(state.devices)));
}

template <typename... Stream>
void copy_planes_to_peer(Everything &all, const RuntimeState &state, CopyMode mode,
                         const Named<const standin::Copy3DPeer *, Stream...> &function,
                         Stream... stream) {
    const Ends between = ends(all, true, true);
    const Shape shape = random_shape(all);
    standin::Copy3DPeer parameters;
    parameters.from = {between.from, kPitch, shape.width, kRows};
    parameters.from_device = any_device(all, state);
    parameters.to = {between.to, kPitch, shape.width, kRows};
    parameters.to_device = any_device(all, state);
    parameters.extent = {shape.width, shape.height, shape.depth};
    if (between && all.make(function, &parameters, stream...) == kSuccess) {
        all.note_copy(CopyKind::d2d, mode, shape.bytes());
    }
}

template <typename... Stream>
void copy_to_peer(Everything &all, const RuntimeState &state, CopyMode mode,
                  const Named<void *, int, const void *, int, std::size_t, Stream...> &function,
                  Stream... stream) {
    const Ends between = ends(all, true, true);
    const std::size_t bytes = all.random(Everything::kRoom + 1);
    if (between && all.make(function, between.to, any_device(all, state), between.from,
                            any_device(all, state), bytes, stream...) == kSuccess) {
        all.note_copy(CopyKind::d2d, mode, bytes);
    }
}

// Without a default direction: an address of the host's stands for the variable.
template <typename... Stream>
void copy_to_symbol(
    Everything &all, CopyMode mode,
    const Named<const void *, const void *, std::size_t, std::size_t, int, Stream...> &function,
    Stream... stream) {
    const Ends between = ends(all, true, all.coin());
    const std::size_t offset = all.random(100);
    const std::size_t bytes = all.random(kVariableBytes - offset + 1);
    if (between && all.make(function, device_variable(), between.from, bytes, offset,
                            between.direction(), stream...) == kSuccess) {
        all.note_copy(between.kind(), mode, bytes);
    }
}

template <typename... Stream>
void copy_from_symbol(
    Everything &all, CopyMode mode,
    const Named<void *, const void *, std::size_t, std::size_t, int, Stream...> &function,
    Stream... stream) {
    const Ends between = ends(all, all.coin(), true);
    const std::size_t offset = all.random(100);
    const std::size_t bytes = all.random(kVariableBytes - offset + 1);
    if (between && all.make(function, between.to, device_variable(), bytes, offset,
                            between.direction(), stream...) == kSuccess) {
        all.note_copy(between.kind(), mode, bytes);
    }
}

template <typename... Stream>
void set(Everything &all, CopyMode mode, const Named<void *, int, std::size_t, Stream...> &function,
         Stream... stream) {
    void *to = all.device_room();
    const std::size_t bytes = all.random(Everything::kRoom + 1);
    if (to != nullptr && all.make(function, to, 7, bytes, stream...) == kSuccess) {
        all.note_set(mode, bytes);
    }
}

template <typename... Stream>
void set_rows(Everything &all, CopyMode mode,
              const Named<void *, std::size_t, int, std::size_t, std::size_t, Stream...> &function,
              Stream... stream) {
    void *to = all.device_room();
    const Shape shape = random_shape(all);
    if (to != nullptr &&
        all.make(function, to, kPitch, 7, shape.width, shape.height, stream...) == kSuccess) {
        all.note_set(mode, shape.width * shape.height);
    }
}

template <typename... Stream>
void set_planes(Everything &all, CopyMode mode,
                const Named<standin::PitchedPointer, int, standin::Extent, Stream...> &function,
                Stream... stream) {
    void *to = all.device_room();
    const Shape shape = random_shape(all);
    if (to != nullptr &&
        all.make(function, standin::PitchedPointer{to, kPitch, kPitch, kRows}, 7,
                 standin::Extent{shape.width, shape.height, shape.depth}, stream...) == kSuccess) {
        all.note_set(mode, shape.bytes());
    }
}

}  // namespace

void add_runtime_copies(Everything &all, const RuntimeState &state) {
    auto add = [&all](auto action) { all.actions.emplace_back(action); };
    constexpr auto kSync = CopyMode::sync;
    constexpr auto kAsync = CopyMode::async;
    add([&] { copy(all, kSync, RUNTIME(cudaMemcpy)); });
    add([&] { copy(all, kSync, RUNTIME(cudaMemcpy_ptds)); });
    add([&] { copy(all, kAsync, RUNTIME(cudaMemcpyAsync), any_stream(all, state)); });
    add([&] { copy(all, kAsync, RUNTIME(cudaMemcpyAsync_ptsz), any_stream(all, state)); });
    add([&] { copy_rows(all, kSync, RUNTIME(cudaMemcpy2D)); });
    add([&] { copy_rows(all, kSync, RUNTIME(cudaMemcpy2D_ptds)); });
    add([&] { copy_rows(all, kAsync, RUNTIME(cudaMemcpy2DAsync), any_stream(all, state)); });
    add([&] { copy_rows(all, kAsync, RUNTIME(cudaMemcpy2DAsync_ptsz), any_stream(all, state)); });
    add([&] { copy_planes(all, kSync, RUNTIME(cudaMemcpy3D)); });
    add([&] { copy_planes(all, kSync, RUNTIME(cudaMemcpy3D_ptds)); });
    add([&] { copy_planes(all, kAsync, RUNTIME(cudaMemcpy3DAsync), any_stream(all, state)); });
    add([&] { copy_planes(all, kAsync, RUNTIME(cudaMemcpy3DAsync_ptsz), any_stream(all, state)); });
    add([&] { copy_batch(all, RUNTIME(cudaMemcpyBatchAsync), any_stream(all, state)); });
    add([&] { copy_batch(all, RUNTIME(cudaMemcpyBatchAsync_ptsz), any_stream(all, state)); });
    add([&] { copy_batch_3d(all, RUNTIME(cudaMemcpy3DBatchAsync), any_stream(all, state)); });
    add([&] { copy_batch_3d(all, RUNTIME(cudaMemcpy3DBatchAsync_ptsz), any_stream(all, state)); });
    add([&] { copy_to_peer(all, state, kSync, RUNTIME(cudaMemcpyPeer)); });
    add([&] {
        copy_to_peer(all, state, kAsync, RUNTIME(cudaMemcpyPeerAsync), any_stream(all, state));
    });
    add([&] { copy_planes_to_peer(all, state, kSync, RUNTIME(cudaMemcpy3DPeer)); });
    add([&] { copy_planes_to_peer(all, state, kSync, RUNTIME(cudaMemcpy3DPeer_ptds)); });
    add([&] {
        copy_planes_to_peer(all, state, kAsync, RUNTIME(cudaMemcpy3DPeerAsync),
                            any_stream(all, state));
    });
    add([&] {
        copy_planes_to_peer(all, state, kAsync, RUNTIME(cudaMemcpy3DPeerAsync_ptsz),
                            any_stream(all, state));
    });
    add([&] { copy_to_symbol(all, kSync, RUNTIME(cudaMemcpyToSymbol)); });
    add([&] { copy_to_symbol(all, kSync, RUNTIME(cudaMemcpyToSymbol_ptds)); });
    add([&] {
        copy_to_symbol(all, kAsync, RUNTIME(cudaMemcpyToSymbolAsync), any_stream(all, state));
    });
    add([&] {
        copy_to_symbol(all, kAsync, RUNTIME(cudaMemcpyToSymbolAsync_ptsz), any_stream(all, state));
    });
    add([&] { copy_from_symbol(all, kSync, RUNTIME(cudaMemcpyFromSymbol)); });
    add([&] { copy_from_symbol(all, kSync, RUNTIME(cudaMemcpyFromSymbol_ptds)); });
    add([&] {
        copy_from_symbol(all, kAsync, RUNTIME(cudaMemcpyFromSymbolAsync), any_stream(all, state));
    });
    add([&] {
        copy_from_symbol(all, kAsync, RUNTIME(cudaMemcpyFromSymbolAsync_ptsz),
                         any_stream(all, state));
    });
    add([&] { set(all, kSync, RUNTIME(cudaMemset)); });
    add([&] { set(all, kSync, RUNTIME(cudaMemset_ptds)); });
    add([&] { set(all, kAsync, RUNTIME(cudaMemsetAsync), any_stream(all, state)); });
    add([&] { set(all, kAsync, RUNTIME(cudaMemsetAsync_ptsz), any_stream(all, state)); });
    add([&] { set_rows(all, kSync, RUNTIME(cudaMemset2D)); });
    add([&] { set_rows(all, kSync, RUNTIME(cudaMemset2D_ptds)); });
    add([&] { set_rows(all, kAsync, RUNTIME(cudaMemset2DAsync), any_stream(all, state)); });
    add([&] { set_rows(all, kAsync, RUNTIME(cudaMemset2DAsync_ptsz), any_stream(all, state)); });
    add([&] { set_planes(all, kSync, RUNTIME(cudaMemset3D)); });
    add([&] { set_planes(all, kSync, RUNTIME(cudaMemset3D_ptds)); });
    add([&] { set_planes(all, kAsync, RUNTIME(cudaMemset3DAsync), any_stream(all, state)); });
    add([&] { set_planes(all, kAsync, RUNTIME(cudaMemset3DAsync_ptsz), any_stream(all, state)); });
}

}  // namespace demo
