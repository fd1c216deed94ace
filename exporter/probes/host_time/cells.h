// The wall time of launching threads by phase and state, in nanoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "bpf/host_time/host_time.h"

namespace gpusnoop::probes {

// Numbers that never fall.
struct HostCells {
    std::array<std::array<std::uint64_t, HOST_STATE_COUNT>, HOST_PHASE_COUNT> ns{};

    // Adds what the times have grown by since the last call.
    void grow_to(const host_times &times);
    // All cells together are the wall time.
    [[nodiscard]] std::uint64_t wall_ns() const;
    // What these have more than `before`, cell by cell.
    [[nodiscard]] HostCells since(const HostCells &before) const;
};

// {"host":{"running":1.25}}: in seconds, without the cells that are 0.
[[nodiscard]] nlohmann::ordered_json to_json(const HostCells &cells);

}  // namespace gpusnoop::probes
