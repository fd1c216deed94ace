// libc10.so, which counts what it is told.
#include "c10.h"

#include <mutex>

namespace {

std::mutex mutex;
standin::Reports all;

template <typename Change>
void note(c10::Device device, Change change) {
    const std::lock_guard lock(mutex);
    change(all[{static_cast<int>(device.type), device.index}]);
}

void note_usage(c10::Device device, std::int64_t bytes, std::uint64_t allocated,
                std::uint64_t reserved) {
    note(device, [&](standin::Reported &of) {
        if (bytes > 0) {
            of.allocations++;
            of.allocated_bytes += static_cast<std::uint64_t>(bytes);
        } else {
            of.frees++;
            of.freed_bytes += static_cast<std::uint64_t>(-bytes);
        }
        of.allocated = allocated;
        of.reserved = reserved;
    });
}

}  // namespace

namespace c10 {

#if defined(STANDIN_TORCH_1_8)
void reportMemoryUsageToProfiler(void * /*address*/, std::int64_t bytes, Device device) {
    note_usage(device, bytes, 0, 0);
}
#else
void reportMemoryUsageToProfiler(void * /*address*/, std::int64_t bytes, Sum allocated,
                                 Sum reserved, Device device) {
    note_usage(device, bytes, static_cast<std::uint64_t>(allocated),
               static_cast<std::uint64_t>(reserved));
}

void reportOutOfMemoryToProfiler(std::int64_t /*bytes*/, Sum allocated, Sum reserved,
                                 Device device) {
    note(device, [&](standin::Reported &of) {
        of.out_of_memory++;
        of.allocated = static_cast<std::uint64_t>(allocated);
        of.reserved = static_cast<std::uint64_t>(reserved);
    });
}
#endif

}  // namespace c10

namespace standin {

Reports reports() {
    const std::lock_guard lock(mutex);
    return all;
}

}  // namespace standin
