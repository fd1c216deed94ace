// The mappings of one process in the kernel's table of live allocations. Some of them ended by a
// cuMemUnmap that left the rest of its range to the exporter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/memory/live_table.h"

namespace gpusnoop::probes {

class Unmapped {
public:
    // `entries`: the indexes of the process's entries in the table.
    Unmapped(const LiveTable &table, std::span<const std::size_t> entries);

    struct Mapping {
        std::uint64_t bytes = 0;
        std::uint64_t born_ns = 0;
        std::pair<std::uint64_t, std::uint64_t> handle;  // and when it was born
        bool is_host = false;
    };
    using Mappings = std::map<std::uint64_t, Mapping>;  // by address

    // Mappings that still lead to memory.
    [[nodiscard]] const Mappings &live() const { return live_; }
    // Mappings that have ended, but whose handles still count them.
    [[nodiscard]] const std::vector<LiveEntry> &ended() const { return ended_; }
    // Entries that the table can lose, once these mappings have been ended.
    [[nodiscard]] const std::vector<LiveEntry> &done() const { return done_; }
    // There are more ranges: read the table again.
    [[nodiscard]] bool has_more() const { return has_more_; }
    // Was the last use of this entry a mapping that has ended?
    [[nodiscard]] bool was_last_use(const cuda_live_key &key, const cuda_live &live) const;

private:
    void end_in(const cuda_live &range, const cuda_live_key &key);

    Mappings live_;
    std::vector<LiveEntry> ended_;
    std::vector<LiveEntry> done_;
    // The ended mappings of each handle and its birth: handles are reused.
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> given_up_;
    bool has_more_ = false;
};

}  // namespace gpusnoop::probes
