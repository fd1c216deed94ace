// The live allocations of one process.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// How old an allocation must be to count as aged.
inline constexpr std::array<std::chrono::seconds, 3> age_thresholds = {
    std::chrono::seconds(60), std::chrono::seconds(600), std::chrono::seconds(3600)};

// Host memory with a handle is pinned host memory on the page.
constexpr cuda_memory_kind shown_kind(cuda_memory_kind kind) {
    return kind == MEMORY_vmm_host ? MEMORY_pinned_host : kind;
}

// Of a record or an entry in the kernel's table.
constexpr cuda_memory_kind memory_kind_of(std::uint16_t kind) {
    return kind <= MEMORY_vmm_host ? static_cast<cuda_memory_kind>(kind) : MEMORY_device;
}

struct Allocation {
    std::uint64_t bytes = 0;
    std::int64_t born_ns = 0;  // when the allocating call returned, on the kernel's monotonic clock
    std::uint64_t context = 0;  // 0: the device's primary one
    Site site;
    std::int32_t device = 0;  // ordinal in the process, or CUDA_DEVICE_...
    cuda_memory_kind kind = MEMORY_device;
    // The kernel's table had no room for it.
    bool never_in_kernel_table = false;
    // The kernel's table has it again, unless it was freed in between.
    bool was_briefly_missing = false;
};

// Never samples, never evicts. An allocation is identified by its address and its time of birth, so
// its records may come in any order, and twice. Sums are updated with each change.
class LiveAllocations {
public:
    // Handles and addresses are different numbers: they may be equal.
    struct Key {
        bool is_handle = false;
        std::uint64_t address = 0;
        std::int64_t born_ns = 0;

        auto operator<=>(const Key &) const = default;
    };
    static Key key_of(std::uint64_t address, const Allocation &allocation) {
        return {MEMORY_HAS_HANDLE(allocation.kind), address, allocation.born_ns};
    }
    using Part = std::pair<std::int32_t, cuda_memory_kind>;  // device, kind as it is shown
    using Parts = std::pmr::map<Part, Amount>;

    // Nodes come from `memory`, which must outlive this.
    explicit LiveAllocations(std::pmr::memory_resource *memory);

    // Adds an allocation; false: it is there already.
    bool allocate(std::uint64_t address, const Allocation &allocation);
    // Removes an allocation and returns it; nothing: it is not there.
    std::optional<Allocation> free(const Key &key);
    // Of the allocations that a free may not have found in the kernel's table: the youngest at the
    // address that existed at `time`.
    [[nodiscard]] std::optional<std::pair<Key, Allocation>> find_not_in_kernel_table(
        bool is_handle, std::uint64_t address, std::int64_t time) const;
    // Note it for an allocation. False: it is not there.
    bool note_never_in_kernel_table(const Key &key);
    bool note_briefly_missing(const Key &key);
    // Removes the earlier allocations at the same address, and returns them: their frees were not
    // seen.
    std::vector<Allocation> forget_older(const Key &key);

    // Addresses that lead to memory with a handle.
    struct Mapping {
        std::uint64_t bytes = 0;
        std::int64_t born_ns = 0;  // when cuMemMap returned
        bool is_host = false;      // the memory is the host's
    };
    // If there is a younger one at the address, that one stays.
    void map(std::uint64_t address, const Mapping &mapping);
    // Ends the mappings in the range that existed at `began`, and returns them.
    std::vector<Key> unmap(std::uint64_t address, std::uint64_t bytes, std::int64_t began);

    // Does the address lie in live memory of a device? (Pinned memory is the host's.)
    [[nodiscard]] bool is_on_device(std::uint64_t address) const;

    [[nodiscard]] Amount all() const { return all_; }
    [[nodiscard]] const Parts &parts() const { return parts_; }
    [[nodiscard]] const std::pmr::map<Site, Amount> &sites() const { return sites_; }
    [[nodiscard]] const std::pmr::map<Key, Allocation> &live() const { return live_; }
    // Bytes that are older than each of age_thresholds, to the second.
    [[nodiscard]] std::array<std::uint64_t, age_thresholds.size()> aged_bytes(
        std::chrono::nanoseconds now) const;

private:
    using Live = std::pmr::map<Key, Allocation>;
    Live::iterator erase(Live::iterator entry);

    Live live_;
    std::pmr::map<std::uint64_t, Mapping> mappings_;  // by address
    std::pmr::map<std::int64_t, Amount> births_;      // by second of birth: live ones
    Parts parts_;
    std::pmr::map<Site, Amount> sites_;
    Amount all_;
};

struct AllocationKeyHash {
    std::size_t operator()(const LiveAllocations::Key &key) const {
        return (key.address ^ (static_cast<std::uint64_t>(key.born_ns) * 0x9e3779b97f4a7c15)) +
               (key.is_handle ? 1 : 0);
    }
};
using AllocationKeys = std::unordered_set<LiveAllocations::Key, AllocationKeyHash>;

// The kernel's table of live allocations, as the exporter reads it.
// An entry of the table. By now its address may have a younger allocation, which is another entry.
struct LiveEntry {
    cuda_live_key key;
    std::uint64_t born_ns;
};

// The entries of the table, read one by one after `since`.
struct LiveTable {
    std::chrono::nanoseconds since{};
    std::vector<std::pair<cuda_live_key, cuda_live>> entries;
    std::unordered_map<std::uint32_t, cuda_live_process> processes;  // by tgid
    // Ended processes whose memory records were lost.
    std::map<ProcessKey, cuda_live_process> ended = {};
    // Driver contexts that were destroyed, by process and handle, and when.
    std::map<std::pair<ProcessKey, std::uint64_t>, std::uint64_t> destroyed_ns = {};

    [[nodiscard]] bool has_running(const ProcessKey &key) const {
        const auto found = processes.find(key.tgid);
        return found != processes.end() && found->second.since_ns == key.since_ns;
    }
};

}  // namespace gpusnoop::probes
