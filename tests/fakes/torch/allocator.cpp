#include "allocator.h"

#include <sys/mman.h>

#include <cstdlib>

namespace standin {

namespace {

constexpr std::size_t granule = 512;
constexpr std::size_t space = std::size_t{1} << 40;

// Each block has an address of its own, over all devices, as with CUDA's unified addressing.
void *new_addresses(std::size_t bytes) {
    static std::mutex mutex;
    static char *const begin = [] {
        void *const all =
            ::mmap(nullptr, space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return all == MAP_FAILED ? nullptr : static_cast<char *>(all);
    }();
    static std::size_t used = 0;
    const std::lock_guard lock(mutex);
    if (begin == nullptr || used + bytes > space) {
        std::abort();
    }
    char *const address = begin + used;
    used += bytes;
    return address;
}

}  // namespace

void Allocator::report(void *address, std::int64_t bytes) const {
#if defined(STANDIN_TORCH_1_8)
    c10::reportMemoryUsageToProfiler(address, bytes, device_);
#else
    c10::reportMemoryUsageToProfiler(address, bytes, static_cast<c10::Sum>(allocated_),
                                     static_cast<c10::Sum>(reserved_), device_);
#endif
}

Block Allocator::allocate(std::size_t bytes) {
    const std::size_t size = (bytes + granule - 1) / granule * granule;
    const std::lock_guard lock(mutex_);
    std::vector<void *> &free_blocks = cached_[size];
    if (free_blocks.empty()) {
        if (reserved_ + size > limit_) {
#if !defined(STANDIN_TORCH_1_8)
            c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(size),
                                             static_cast<c10::Sum>(allocated_),
                                             static_cast<c10::Sum>(reserved_), device_);
#endif
            return {};
        }
        free_blocks.push_back(new_addresses(size));
        reserved_ += size;
    }
    const Block block{free_blocks.back(), size};
    free_blocks.pop_back();
    allocated_ += size;
    report(block.address, static_cast<std::int64_t>(size));
    return block;
}

void Allocator::free(const Block &block) {
    const std::lock_guard lock(mutex_);
    cached_[block.bytes].push_back(block.address);
    allocated_ -= block.bytes;
    report(block.address, -static_cast<std::int64_t>(block.bytes));
}

}  // namespace standin
