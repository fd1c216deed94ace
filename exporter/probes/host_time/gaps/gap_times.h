// The launch gaps of a process by what they began with, and what they were spent on.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "bpf/host_time/host_time.h"

namespace gpusnoop::probes {

// Numbers that never fall.
struct GapTimes {
    struct Sum {
        std::uint64_t gaps = 0;
        std::uint64_t ns = 0;
        std::array<std::uint64_t, HOST_GAP_STATES> state_ns{};  // of those that are explained

        [[nodiscard]] std::uint64_t explained_ns() const;
    };
    std::array<Sum, HOST_DRAIN_COUNT> by_drain{};

    // Adds those of another device.
    void add(const GapTimes &more);
    // What these have more than `before`.
    [[nodiscard]] GapTimes since(const GapTimes &before) const;
    [[nodiscard]] std::uint64_t gaps() const;
    // The gaps after waits: then the GPU, or one of its streams, had nothing to do.
    [[nodiscard]] Sum after_waits() const;
};

// {"device":{"gaps":19,"seconds":2.6,"states":{"pipe":1.8}}}: in seconds, without what is 0.
[[nodiscard]] nlohmann::ordered_json to_json(const GapTimes &gaps);

}  // namespace gpusnoop::probes
