// The live allocations of one process.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>

namespace gpusnoop::probes {

// How old an allocation must be to count as aged.
inline constexpr std::array<std::chrono::seconds, 3> age_thresholds = {
    std::chrono::seconds(60), std::chrono::seconds(600), std::chrono::seconds(3600)};

// Never samples, never evicts. Records come in the order of the ring, which is the order in which
// calls returned; the memory itself was freed a little before that, so an address can be allocated
// again before its free is heard of. Such an address has several entries for a moment, and a free
// takes the oldest: whatever the interleaving, the sums come out right.
class AllocationBook {
public:
    // Nodes come from `memory`, which must outlive the book.
    explicit AllocationBook(std::pmr::memory_resource *memory) : live_(memory), births_(memory) {}

    // `at`: when the call returned, on the kernel's monotonic clock.
    void allocate(std::uint64_t address, std::uint64_t bytes, std::chrono::nanoseconds at);

    // The bytes that were freed, or nothing when the address is not in the book: allocated before
    // we looked.
    std::optional<std::uint64_t> free(std::uint64_t address);

    // Does the address lie in a live allocation?
    [[nodiscard]] bool contains(std::uint64_t address) const;

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t count() const { return live_.size(); }
    // Bytes that are older than each of age_thresholds, to the second.
    [[nodiscard]] std::array<std::uint64_t, age_thresholds.size()> aged_bytes(
        std::chrono::nanoseconds now) const;

private:
    struct Allocation {
        std::uint64_t bytes;
        std::int64_t birth_second;
    };

    struct Born {
        std::uint64_t bytes = 0;
        std::uint64_t count = 0;
    };

    std::pmr::multimap<std::uint64_t, Allocation> live_;
    std::pmr::map<std::int64_t, Born> births_;  // by second: what of it lives
    std::uint64_t bytes_ = 0;
};

}  // namespace gpusnoop::probes
