// Memory with a handle: mapped, retained, imported and released in any order.

#include "workload/everything/driver.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace demo {
namespace {

using standin::DevicePointer;
using standin::kSuccess;
using truth::MemoryKind;

constexpr std::size_t kGranularity = std::size_t{2} << 20U;
constexpr std::size_t kMostHandles = 5;
constexpr std::size_t kMostMappings = 2;  // of each

struct Handle {
    standin::MemoryHandle number;
    std::size_t bytes;
    MemoryKind kind;
    int device;
    bool imported;
    int references;
    std::vector<DevicePointer> mappings;
};

struct Reservation {
    DevicePointer start;
    std::size_t bytes;
};

using Handles = std::vector<Handle>;

class VirtualMemory {
public:
    explicit VirtualMemory(Everything &all) : all_(all) {}

    void create();
    void import();
    void map();
    void map_side_by_side();
    void retain();
    void release();
    void unmap();
    void end();

private:
    template <typename Condition>
    Handle *pick(Condition condition) {
        std::vector<Handle *> found;
        for (Handle &handle : handles_) {
            if (condition(handle)) {
                found.push_back(&handle);
            }
        }
        return found.empty() ? nullptr : all_.any(found);
    }
    DevicePointer reserve(std::size_t bytes);
    bool map_at(Handle &handle, DevicePointer start);
    void release_once(Handle &handle);
    void unmap_once(Handle &handle, DevicePointer start);
    void forget_unused();

    Everything &all_;
    Handles handles_;
};

bool can_map(const Handle &handle) {
    return handle.references > 0 && handle.mappings.size() < kMostMappings;
}

void VirtualMemory::create() {
    if (handles_.size() >= kMostHandles) {
        return;
    }
    int devices = 0;
    if (all_.make(DRIVER(cuDeviceGetCount), &devices) != kSuccess) {
        return;
    }
    standin::MemoryProperties properties;
    // Anywhere, whichever device is the current one.
    const bool is_host = all_.random(3) == 0;
    properties.location.type =
        standin::kOnDevice + static_cast<int>(is_host ? 1 + all_.random(3) : 0);
    properties.location.id =
        is_host ? 0 : static_cast<int>(all_.random(static_cast<std::uint64_t>(devices)));
    const MemoryKind kind = is_host ? MemoryKind::pinned_host : MemoryKind::vmm;
    const int device = is_host ? all_.current().device : properties.location.id;
    const std::size_t bytes = kGranularity * (1 + all_.random(3));
    standin::MemoryHandle number = 0;
    if (all_.make(DRIVER(cuMemCreate), &number, bytes,
                  static_cast<const standin::MemoryProperties *>(&properties),
                  std::uint64_t{0}) != kSuccess) {
        return;
    }
    truth::Memory &memory = all_.memory(kind, device);
    ++memory.allocations;
    memory.allocated_bytes += bytes;
    ++memory.outstanding_allocations;
    memory.outstanding_bytes += bytes;
    handles_.push_back({number, bytes, kind, device, false, 1, {}});
}

void VirtualMemory::import() {
    if (handles_.size() >= kMostHandles + 2) {
        return;
    }
    standin::MemoryHandle number = 0;
    const auto keep = [&](int error) {
        if (error == kSuccess) {
            handles_.push_back({number, kGranularity, MemoryKind::vmm, 0, true, 1, {}});
        }
    };
    keep(all_.make(DRIVER(cuMemImportFromShareableHandle), &number, static_cast<void *>(&all_), 1));
    keep(all_.make(DRIVER(cuMulticastCreate), &number, static_cast<const void *>(&all_)));
}

DevicePointer VirtualMemory::reserve(std::size_t bytes) {
    DevicePointer start = 0;
    all_.make(DRIVER(cuMemAddressReserve), &start, bytes, std::size_t{0}, DevicePointer{0},
              std::uint64_t{0});
    return start;
}

bool VirtualMemory::map_at(Handle &handle, DevicePointer start) {
    if (all_.make(DRIVER(cuMemMap), start, handle.bytes, std::size_t{0}, handle.number,
                  std::uint64_t{0}) != kSuccess) {
        return false;
    }
    handle.mappings.push_back(start);
    standin::MemoryAccess access;
    access.location.id = all_.current().device;
    all_.make(DRIVER(cuMemSetAccess), start, handle.bytes,
              static_cast<const standin::MemoryAccess *>(&access), std::size_t{1});
    return true;
}

// It can be used like other memory.
void VirtualMemory::map() {
    Handle *handle = pick(can_map);
    if (handle == nullptr) {
        return;
    }
    const DevicePointer start = reserve(handle->bytes);
    if (start == 0) {
        return;
    }
    if (!map_at(*handle, start)) {
        all_.make(DRIVER(cuMemAddressFree), start, handle->bytes);
        return;
    }
    if (all_.make(DRIVER(cuMemsetD8_v2), start, std::uint8_t{1}, std::size_t{1000}) == kSuccess) {
        all_.note_set(truth::CopyMode::sync, 1000);
    }
    if (all_.make(DRIVER(cuMemcpy), start, at(all_.host_room()), std::size_t{1000}) == kSuccess) {
        const bool is_host = handle->kind == MemoryKind::pinned_host;
        all_.note_copy(is_host ? truth::CopyKind::h2h : truth::CopyKind::h2d, truth::CopyMode::sync,
                       1000);
    }
}

// Two mappings that end with one call.
void VirtualMemory::map_side_by_side() {
    Handle *first = pick(can_map);
    Handle *second = pick(can_map);
    if (first == nullptr || first == second) {
        return;
    }
    const std::size_t bytes = first->bytes + second->bytes;
    const DevicePointer start = reserve(bytes);
    if (start == 0) {
        return;
    }
    const bool both = map_at(*first, start) && map_at(*second, start + first->bytes);
    if (both && all_.make(DRIVER(cuMemUnmap), start, bytes) == kSuccess) {
        std::erase(first->mappings, start);
        std::erase(second->mappings, start + first->bytes);
        all_.make(DRIVER(cuMemAddressFree), start, bytes);
        forget_unused();
    }
}

void VirtualMemory::retain() {
    Handle *handle = pick([](const Handle &one) { return !one.mappings.empty(); });
    if (handle == nullptr) {
        return;
    }
    standin::MemoryHandle number = 0;
    void *inside = reinterpret_cast<void *>(handle->mappings.front() + all_.random(1000));
    if (all_.make(DRIVER(cuMemRetainAllocationHandle), &number, inside) == kSuccess) {
        ++handle->references;
    }
}

void VirtualMemory::release_once(Handle &handle) {
    if (all_.make(DRIVER(cuMemRelease), handle.number) == kSuccess) {
        --handle.references;
    }
}

void VirtualMemory::unmap_once(Handle &handle, DevicePointer start) {
    if (all_.make(DRIVER(cuMemUnmap), start, handle.bytes) == kSuccess) {
        std::erase(handle.mappings, start);
        all_.make(DRIVER(cuMemAddressFree), start, handle.bytes);
    }
}

void VirtualMemory::release() {
    if (Handle *handle = pick([](const Handle &one) { return one.references > 0; })) {
        release_once(*handle);
        forget_unused();
    }
}

void VirtualMemory::unmap() {
    if (Handle *handle = pick([](const Handle &one) { return !one.mappings.empty(); })) {
        unmap_once(*handle, all_.any(handle->mappings));
        forget_unused();
    }
}

void VirtualMemory::forget_unused() {
    std::erase_if(handles_, [&](const Handle &handle) {
        if (handle.references != 0 || !handle.mappings.empty()) {
            return false;
        }
        if (!handle.imported) {
            truth::Memory &memory = all_.memory(handle.kind, handle.device);
            ++memory.frees;
            memory.freed_bytes += handle.bytes;
            --memory.outstanding_allocations;
            memory.outstanding_bytes -= handle.bytes;
        }
        return true;
    });
}

void VirtualMemory::end() {
    for (int attempt = 0; attempt < 20 && !handles_.empty(); ++attempt) {
        for (Handle &handle : handles_) {
            if (handle.references > 0) {
                release_once(handle);
            }
            if (!handle.mappings.empty()) {
                unmap_once(handle, handle.mappings.front());
            }
        }
        forget_unused();
    }
}

}  // namespace

void add_driver_virtual_memory(Everything &all) {
    auto memory = std::make_shared<VirtualMemory>(all);
    all.actions.emplace_back([memory] { memory->create(); });
    all.actions.emplace_back([memory] { memory->create(); });
    all.actions.emplace_back([memory] { memory->import(); });
    all.actions.emplace_back([memory] { memory->map(); });
    all.actions.emplace_back([memory] { memory->map(); });
    all.actions.emplace_back([memory] { memory->map_side_by_side(); });
    all.actions.emplace_back([memory] { memory->retain(); });
    all.actions.emplace_back([memory] { memory->release(); });
    all.actions.emplace_back([memory] { memory->release(); });
    all.actions.emplace_back([memory] { memory->unmap(); });
    all.actions.emplace_back([memory] { memory->unmap(); });
    all.endings.emplace_back([memory] { memory->end(); });
}

}  // namespace demo
