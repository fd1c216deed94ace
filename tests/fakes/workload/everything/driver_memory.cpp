// Memory with an address.

#include "workload/everything/batches.h"
#include "workload/everything/driver.h"

namespace demo {
namespace {

using standin::DevicePointer;
using standin::kSuccess;
using truth::MemoryKind;

template <typename Address, typename... Parameters, typename... Rest>
void allocate(Everything &all, MemoryKind kind,
              const Named<Address *, std::size_t, Parameters...> &function, Rest... rest) {
    Address memory = 0;
    const std::size_t bytes = all.random_bytes();
    if (all.make(function, &memory, bytes, rest...) == kSuccess) {
        all.note_allocation(kind, (void *)memory, bytes);
    }
}

// Of the stream's device.
void allocate_on(Everything &all, standin::Stream stream,
                 const Named<DevicePointer *, std::size_t, standin::Stream> &function) {
    DevicePointer memory = 0;
    const std::size_t bytes = all.random_bytes();
    if (all.make(function, &memory, bytes, stream) == kSuccess) {
        all.note_allocation({.start = reinterpret_cast<void *>(memory),
                             .bytes = bytes,
                             .kind = MemoryKind::async,
                             .where = stream == nullptr ? all.current() : Everything::Where{}});
    }
}

void allocate_rows(Everything &all) {
    DevicePointer memory = 0;
    std::size_t pitch = 0;
    const std::size_t height = 8 + all.random(8);
    if (all.make(DRIVER(cuMemAllocPitch_v2), &memory, &pitch, 1 + all.random(2000), height, 8U) ==
        kSuccess) {
        all.note_allocation(MemoryKind::device, reinterpret_cast<void *>(memory), pitch * height);
    }
}

// The device's own pool, or a new one that is gone before its memory.
void allocate_from_pool(
    Everything &all,
    const Named<DevicePointer *, std::size_t, standin::MemoryPool, standin::Stream> &function,
    standin::Stream stream) {
    standin::MemoryPool pool = nullptr;
    const int device = all.current().device;
    if (all.coin()) {
        standin::MemoryLocation location{.id = device};
        const int error =
            all.coin() ? (all.coin() ? all.make(DRIVER(cuDeviceGetDefaultMemPool), &pool, device)
                                     : all.make(DRIVER(cuDeviceGetMemPool), &pool, device))
                       : (all.coin() ? all.make(DRIVER(cuMemGetDefaultMemPool), &pool, &location, 1)
                                     : all.make(DRIVER(cuMemGetMemPool), &pool, &location, 1));
        if (error == kSuccess) {
            allocate(all, MemoryKind::async, function, pool, stream);
        }
        return;
    }
    standin::PoolProperties properties;
    properties.location.id = device;
    if (all.make(DRIVER(cuMemPoolCreate), &pool,
                 static_cast<const standin::PoolProperties *>(&properties)) == kSuccess) {
        allocate(all, MemoryKind::async, function, pool, stream);
        all.make(DRIVER(cuMemPoolDestroy), pool);
    }
}

bool free_any(Everything &all, const DriverState &state, const Everything::Live &live) {
    int error = kSuccess;
    if (live.registered) {
        error = all.make(DRIVER(cuMemHostUnregister), live.start);
    } else if (live.kind == MemoryKind::pinned_host) {
        error = all.make(DRIVER(cuMemFreeHost), live.start);
    } else if (live.kind == MemoryKind::managed || all.coin()) {
        error = all.make(DRIVER(cuMemFree_v2), at(live.start));
    } else {
        error = all.make(DRIVER(cuMemFreeAsync), at(live.start), state.stream);
    }
    if (error == kSuccess) {
        all.note_free(live);
    }
    return error == kSuccess;
}

}  // namespace

void add_driver_memory(Everything &all, const DriverState &state) {
    using enum MemoryKind;
    auto add = [&all](auto action) { all.actions.emplace_back(action); };
    add([&] { allocate(all, device, DRIVER(cuMemAlloc_v2)); });
    add([&] { allocate_rows(all); });
    add([&] { allocate(all, managed, DRIVER(cuMemAllocManaged), 1U); });
    add([&] { allocate(all, pinned_host, DRIVER(cuMemAllocHost_v2)); });
    add([&] { allocate(all, pinned_host, DRIVER(cuMemHostAlloc), 0U); });
    add([&] { register_room(all, DRIVER(cuMemHostRegister)); });
    add([&] { register_room(all, DRIVER(cuMemHostRegister_v2)); });
    add([&] { allocate_on(all, any_stream(all, state), DRIVER(cuMemAllocAsync)); });
    add([&] { allocate_on(all, any_stream(all, state), DRIVER(cuMemAllocAsync_ptsz)); });
    add([&] { allocate_from_pool(all, DRIVER(cuMemAllocFromPoolAsync), any_stream(all, state)); });
    add([&] {
        allocate_from_pool(all, DRIVER(cuMemAllocFromPoolAsync_ptsz), any_stream(all, state));
    });
    all.allocations.emplace_back([&] { allocate(all, device, DRIVER(cuMemAlloc_v2)); });

    add([&] {
        free_some(all, {device, managed, async},
                  [&](const auto &live) { return all.make(DRIVER(cuMemFree_v2), at(live.start)); });
    });
    add([&] {
        free_some(all, {pinned_host},
                  [&](const auto &live) { return all.make(DRIVER(cuMemFreeHost), live.start); });
    });
    add([&] { unregister_room(all, DRIVER(cuMemHostUnregister)); });
    add([&] {
        free_some(all, {device, async}, [&](const auto &live) {
            return all.make(DRIVER(cuMemFreeAsync), at(live.start), any_stream(all, state));
        });
    });
    add([&] {
        free_some(all, {device, async}, [&](const auto &live) {
            return all.make(DRIVER(cuMemFreeAsync_ptsz), at(live.start), any_stream(all, state));
        });
    });
    all.frees.emplace_back([&](const auto &live) { return free_any(all, state, live); });
}

}  // namespace demo
