// A caching allocator of one device, which reports as PyTorch's does: each block that it gives out
// or takes back, and each request that it refuses, with its lock held. Its memory is address space
// that nobody uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "c10.h"

namespace standin {

struct Block {
    void *address = nullptr;  // null: out of memory
    std::size_t bytes = 0;
};

class Allocator {
public:
    Allocator(c10::Device device, std::size_t limit) : device_(device), limit_(limit) {}

    // Rounds up to 512 bytes. An address that was freed last is given again first.
    Block allocate(std::size_t bytes);
    void free(const Block &block);

    [[nodiscard]] c10::Device device() const { return device_; }

private:
    void report(void *address, std::int64_t bytes) const;

    std::mutex mutex_;
    c10::Device device_;
    std::size_t limit_;
    std::uint64_t allocated_ = 0;
    std::uint64_t reserved_ = 0;
    std::map<std::size_t, std::vector<void *>> cached_;  // by size
};

}  // namespace standin
