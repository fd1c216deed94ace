// The past of a profile that does not end, in slices.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "exporter/probes/profile/stacks.h"

namespace gpusnoop::probes {

struct ProfileSlice {
    std::chrono::nanoseconds began{};  // CLOCK_MONOTONIC
    std::chrono::nanoseconds ended{};
    ProfileReading reading;
    std::uint64_t samples_lost = 0;
    std::uint64_t stacks_lost = 0;
};

// All of them together: each stack of each thread once.
[[nodiscard]] ProfileReading merged(std::span<const ProfileSlice *const> slices,
                                    const ProfileReading &current);

// For one thread.
class ProfileSlices {
public:
    // Forgets the slices that ended before `oldest`, and the oldest ones where their samples take
    // more than this, so that a machine with many threads has a shorter past.
    static constexpr std::size_t max_samples = 131'072;  // of 88 bytes
    void add(ProfileSlice slice, std::chrono::nanoseconds oldest);

    // That ended at `since` or later, oldest first.
    [[nodiscard]] std::vector<const ProfileSlice *> since(std::chrono::nanoseconds since) const;

    [[nodiscard]] std::vector<const ProfileReading *> readings() const;

private:
    std::deque<ProfileSlice> slices_;
    std::size_t samples_ = 0;
};

}  // namespace gpusnoop::probes
