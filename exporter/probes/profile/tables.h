// The tables of the BPF programs of a profile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bpf/profile/profile.h"
#include "exporter/base/result.h"
#include "exporter/probes/profile/stacks.h"
#include "profile.skel.h"

namespace gpusnoop::probes {

// Of a loaded skeleton, which must outlive this.
class ProfileTables {
public:
    explicit ProfileTables(profile_bpf &skeleton) : skeleton_(skeleton) {}

    [[nodiscard]] Result<ProfileReading> read() const;
    // Adds the times off the CPU that are not over.
    [[nodiscard]] Result<> read_open(ProfileReading &reading, std::uint64_t now_ns) const;
    // Innermost first; empty: it is not there.
    [[nodiscard]] std::vector<std::uint64_t> addresses(std::uint64_t stack) const;
    [[nodiscard]] std::string kernel_function(std::uint64_t address) const;  // "": not known
    [[nodiscard]] std::uint64_t stacks_lost() const;  // samples without their stack

    // Samples count in a new generation from now on. Returns the one that is over.
    std::uint32_t begin_generation();
    // Deletes these counts, and the stacks of earlier generations than the last: a program that
    // was interrupted may count in that one still.
    void take_out(const ProfileReading &reading);

private:
    profile_bpf &skeleton_;
};

}  // namespace gpusnoop::probes
