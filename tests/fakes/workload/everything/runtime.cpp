// Memory, devices and what fails.

#include "workload/everything/runtime.h"
#include "workload/everything/batches.h"

#include "workload/kernels.h"

#include <memory>

namespace demo {
namespace {

using standin::kSuccess;
using truth::MemoryKind;

template <typename... Parameters, typename... Rest>
void allocate(Everything &all, MemoryKind kind,
              const Named<void **, std::size_t, Parameters...> &function, Rest... rest) {
    void *memory = nullptr;
    const std::size_t bytes = all.random(8) == 0 ? 0 : all.random_bytes();
    if (all.make(function, &memory, bytes, rest...) != kSuccess) {
        return;
    }
    if (bytes == 0) {
        all.note_empty_allocation(kind);
    } else {
        all.note_allocation(kind, memory, bytes);
    }
}

// Of the stream's device.
void allocate_on(Everything &all, standin::Stream stream,
                 const Named<void **, std::size_t, standin::Stream> &function) {
    void *memory = nullptr;
    const std::size_t bytes = all.random(8) == 0 ? 0 : all.random_bytes();
    if (all.make(function, &memory, bytes, stream) != kSuccess) {
        return;
    }
    if (bytes == 0) {
        all.note_empty_allocation(MemoryKind::async);
    } else {
        all.note_allocation({.start = memory,
                             .bytes = bytes,
                             .kind = MemoryKind::async,
                             .where = stream == nullptr ? all.current() : Everything::Where{}});
    }
}

void allocate_rows(Everything &all) {
    void *memory = nullptr;
    std::size_t pitch = 0;
    const std::size_t height = all.random(8) == 0 ? 0 : 8 + all.random(8);
    if (all.make(RUNTIME(cudaMallocPitch), &memory, &pitch, 1 + all.random(2000), height) ==
        kSuccess) {
        if (height == 0) {
            all.note_empty_allocation(MemoryKind::device);
        } else {
            all.note_allocation(MemoryKind::device, memory, pitch * height);
        }
    }
}

void allocate_planes(Everything &all) {
    standin::PitchedPointer memory;
    const standin::Extent extent{1 + all.random(2000), 8 + all.random(8), 1 + all.random(4)};
    if (all.make(RUNTIME(cudaMalloc3D), &memory, extent) == kSuccess) {
        all.note_allocation(MemoryKind::device, memory.pointer,
                            memory.pitch * extent.height * extent.depth);
    }
}

void allocate_from_pool(
    Everything &all,
    const Named<void **, std::size_t, standin::MemoryPool, standin::Stream> &function,
    standin::Stream stream) {
    standin::MemoryPool pool = nullptr;
    const int device = all.current().device;
    if (all.coin()) {
        standin::PoolProperties properties;
        properties.location.id = device;
        if (all.make(RUNTIME(cudaMemPoolCreate), &pool,
                     static_cast<const standin::PoolProperties *>(&properties)) == kSuccess) {
            allocate(all, MemoryKind::async, function, pool, stream);
            all.make(RUNTIME(cudaMemPoolDestroy), pool);
        }
        return;
    }
    standin::MemoryLocation location{.id = device};
    const int error =
        all.coin() ? (all.coin() ? all.make(RUNTIME(cudaDeviceGetDefaultMemPool), &pool, device)
                                 : all.make(RUNTIME(cudaDeviceGetMemPool), &pool, device))
                   : (all.coin() ? all.make(RUNTIME(cudaMemGetDefaultMemPool), &pool, &location, 1)
                                 : all.make(RUNTIME(cudaMemGetMemPool), &pool, &location, 1));
    if (error == kSuccess) {
        allocate(all, MemoryKind::async, function, pool, stream);
    }
}

bool free_any(Everything &all, const RuntimeState &state, const Everything::Live &live) {
    int error = kSuccess;
    if (live.registered) {
        error = all.make(RUNTIME(cudaHostUnregister), live.start);
    } else if (live.kind == MemoryKind::pinned_host) {
        error = all.make(RUNTIME(cudaFreeHost), live.start);
    } else if (live.kind == MemoryKind::managed || all.coin()) {
        error = all.make(RUNTIME(cudaFree), live.start);
    } else {
        error = all.make(RUNTIME(cudaFreeAsync), live.start, state.stream);
    }
    if (error == kSuccess) {
        all.note_free(live);
    }
    return error == kSuccess;
}

void begin(Everything &all, RuntimeState &state) {
    // The first call that works makes the first device's context current.
    for (int attempt = 0; attempt < 10 && all.stack.empty(); ++attempt) {
        if (all.make(RUNTIME(cudaFree), nullptr) == kSuccess) {
            all.note_empty_free();
            all.replace_current({});
        }
    }
    all.make(RUNTIME(cudaGetDeviceCount), &state.devices);
    standin::Stream brief = nullptr;
    if (all.make(RUNTIME(cudaStreamCreate), &brief) == kSuccess) {
        all.make(RUNTIME(cudaStreamDestroy), brief);
    }
    if (all.make(RUNTIME(cudaExecutionCtxStreamCreate), &brief, nullptr, 0U, 0) == kSuccess) {
        all.make(RUNTIME(cudaStreamDestroy), brief);
    }
    // Of the first device.
    all.make(RUNTIME(cudaStreamCreateWithPriority), &state.stream, 0U, 0);
    all.make(RUNTIME(cudaEventCreate), &state.start);
    all.make(RUNTIME(cudaEventCreate), &state.end);
    standin::Graph graph = nullptr;
    if (all.make(RUNTIME(cudaGraphCreate), &graph, 0U) == kSuccess) {
        all.make(RUNTIME(cudaGraphInstantiate), &state.graph, graph, std::uint64_t{0});
        all.make(RUNTIME(cudaGraphDestroy), graph);
    }
}

void set_device(Everything &all, const RuntimeState &state) {
    const int device = static_cast<int>(all.random(static_cast<std::uint64_t>(state.devices)));
    if (all.make(RUNTIME(cudaSetDevice), device) == kSuccess) {
        all.replace_current({nullptr, device});
    }
}

void reset_device(Everything &all) {
    if (all.options().resets && all.random(3) == 0 &&
        all.make(RUNTIME(cudaDeviceReset)) == kSuccess) {
        all.note_reset(all.current());
    }
}

void add_allocations(Everything &all, const RuntimeState &state) {
    using enum MemoryKind;
    auto add = [&all](auto action) { all.actions.emplace_back(action); };
    add([&] { allocate(all, device, RUNTIME(cudaMalloc)); });
    add([&] { allocate(all, managed, RUNTIME(cudaMallocManaged), 1U); });
    add([&] { allocate(all, pinned_host, RUNTIME(cudaMallocHost)); });
    add([&] { allocate(all, pinned_host, RUNTIME(cudaHostAlloc), 0U); });
    add([&] { register_room(all, RUNTIME(cudaHostRegister)); });
    add([&] { allocate_rows(all); });
    add([&] { allocate_planes(all); });
    add([&] { allocate_on(all, any_stream(all, state), RUNTIME(cudaMallocAsync)); });
    add([&] { allocate_on(all, any_stream(all, state), RUNTIME(cudaMallocAsync_ptsz)); });
    add([&] { allocate_from_pool(all, RUNTIME(cudaMallocFromPoolAsync), any_stream(all, state)); });
    add([&] {
        allocate_from_pool(all, RUNTIME(cudaMallocFromPoolAsync_ptsz), any_stream(all, state));
    });
    all.allocations.emplace_back([&] { allocate(all, device, RUNTIME(cudaMalloc)); });
}

void add_frees(Everything &all, const RuntimeState &state) {
    using enum MemoryKind;
    auto add = [&all](auto action) { all.actions.emplace_back(action); };
    add([&] {
        free_some(all, {device, managed, async},
                  [&](const auto &live) { return all.make(RUNTIME(cudaFree), live.start); });
    });
    add([&] {
        free_some(all, {pinned_host},
                  [&](const auto &live) { return all.make(RUNTIME(cudaFreeHost), live.start); });
    });
    add([&] { unregister_room(all, RUNTIME(cudaHostUnregister)); });
    add([&] {
        free_some(all, {device, async}, [&](const auto &live) {
            return all.make(RUNTIME(cudaFreeAsync), live.start, any_stream(all, state));
        });
    });
    add([&] {
        free_some(all, {device, async}, [&](const auto &live) {
            return all.make(RUNTIME(cudaFreeAsync_ptsz), live.start, any_stream(all, state));
        });
    });
    add([&] {
        if (all.make(RUNTIME(cudaFree), nullptr) == kSuccess) {
            all.note_empty_free();
        }
    });
    all.frees.emplace_back([&](const auto &live) { return free_any(all, state, live); });
}

void add_failures(Everything &all, const RuntimeState &state) {
    auto add = [&all](auto action) { all.failures.emplace_back(action); };
    add([&] {
        void *memory = nullptr;
        all.make(RUNTIME(cudaMalloc), &memory, std::size_t{1} << 50U);
    });
    add([&] { all.make(RUNTIME(cudaMalloc), nullptr, std::size_t{64}); });
    add([&] { all.make(RUNTIME(cudaFree), all.host_room()); });
    add([&] { all.make(RUNTIME(cudaFreeHost), &all); });
    add([&] { all.make(RUNTIME(cudaHostRegister), nullptr, std::size_t{64}, 0U); });
    add([&] { fail_to_register(all, RUNTIME(cudaHostRegister)); });
    add([&] { all.make(RUNTIME(cudaHostUnregister), &all); });
    add([&] { fail_batch(all, RUNTIME(cudaMemcpyBatchAsync), state.stream); });
    add([&] {
        all.make(RUNTIME(cudaMemcpy), all.host_room(), all.host_room(), std::size_t{64}, 9);
    });
    add([&] {
        all.make(RUNTIME(cudaMemcpy2D), all.host_room(), std::size_t{8}, all.host_room(),
                 std::size_t{8}, std::size_t{9}, std::size_t{1}, 0);
    });
    add([&] {
        all.make(RUNTIME(cudaMemcpyToSymbol), &all, all.host_room(), std::size_t{64},
                 std::size_t{0}, 1);
    });
    add([&] { all.make(RUNTIME(cudaMemset), all.host_room(), 0, kVariableBytes * 1024); });
    add([&] { all.make(RUNTIME(cudaSetDevice), 99); });
    add([&] {
        float milliseconds = 0;
        all.make(RUNTIME(cudaEventElapsedTime), &milliseconds, nullptr, nullptr);
    });
    add([&] { all.make(RUNTIME(cudaGraphLaunch), nullptr, nullptr); });
    add([&] { all.make(RUNTIME(cudaStreamSynchronize), static_cast<void *>(&all)); });
    add([&] {
        all.make(Named{"cudaLaunchKernel", &::cudaLaunchKernel}, static_cast<const void *>(&all),
                 standin::Dim3{}, standin::Dim3{}, nullptr, std::size_t{0}, nullptr);
    });
    add([&] {
        all.make(Named{"cudaLaunchKernel", &::cudaLaunchKernel}, kernel_stubs()[0].stub,
                 standin::Dim3{}, standin::Dim3{2048, 1, 1}, nullptr, std::size_t{0}, nullptr);
    });
    add([&] {
        standin::Kernel kernel = nullptr;
        all.make(RUNTIME(cudaGetKernel), &kernel, static_cast<const void *>(&all));
    });
}

}  // namespace

void add_runtime_actions(Everything &all) {
    // The actions live as long as the state.
    auto state = std::make_shared<RuntimeState>();
    all.beginnings.emplace_back([&all, state] { begin(all, *state); });
    add_allocations(all, *state);
    add_frees(all, *state);
    add_runtime_copies(all, *state);
    add_runtime_launches(all, *state);
    if (all.options().graphs) {
        add_graph_actions(all, runtime_graphs(all));
    }
    add_failures(all, *state);
    all.actions.emplace_back([&all, state] { set_device(all, *state); });
    all.actions.emplace_back([&all] { reset_device(all); });
    all.actions.emplace_back([&all] {
        std::size_t free_bytes = 0;
        std::size_t total_bytes = 0;
        all.make(RUNTIME(cudaMemGetInfo), &free_bytes, &total_bytes);
    });
}

}  // namespace demo
