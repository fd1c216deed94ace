// Reads the counters that a probe's BPF programs keep of themselves.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "bpf/lib/wire.h"
#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// The values of the label `reason`, in the order of enum lost_reason.
inline constexpr std::array<std::string_view, LOST_REASON_COUNT> lost_reason_names = {
#define REASON(name) #name,
    LOST_REASONS(REASON)
#undef REASON
};

// The values of the label `signal`, in the order of enum death_signal.
inline constexpr std::array<std::string_view, DEATH_SIGNAL_COUNT> death_signal_names = {
#define SIGNAL(name, number) #name,
    DEATH_SIGNALS(SIGNAL)
#undef SIGNAL
};

// Sums the per-CPU accounts. `map_fd` is a probe's `account` map. What is `counted` is in the
// others, where it belongs, and 0.
Result<probe_account> read_account(int map_fd);

// Calls that were entered and have neither returned nor been given up. The sums are read while
// calls run, so the result can be wrong by the few calls that change meanwhile; never below 0.
std::uint64_t in_flight(const probe_account &account);

// Calls without an event, for any reason.
std::uint64_t lost_calls(const probe_account &account);

}  // namespace gpusnoop::ebpf
