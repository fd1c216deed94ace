// The launch gaps of the accounts -> counters: the times in which processes give their GPUs
// nothing.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/host_time/host_time.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/host_time/process_times.h"
#include "exporter/processes/process_names.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

class LaunchGaps {
public:
    explicit LaunchGaps(series::FamilySet &set);

    // What is counted of one process, for one GPU.
    class Counted {
    public:
        explicit Counted(std::string gpu) : gpu_(std::move(gpu)) {}

        [[nodiscard]] const std::string &gpu() const { return gpu_; }
        [[nodiscard]] const GapTimes &times() const { return times_; }

    private:
        friend LaunchGaps;
        std::string gpu_;  // the label
        GapTimes times_;
        std::array<std::array<std::uint64_t, HOST_SPAN_BUCKETS>, HOST_DRAIN_COUNT> gaps_{};
        std::optional<series::Slot> gap_slot_;
        std::array<std::optional<series::Slot>, HOST_DRAIN_COUNT> drain_slots_;
        std::array<std::array<std::optional<series::Slot>, HOST_GAP_STATES>, HOST_DRAIN_COUNT>
            state_slots_;
    };

    // Counts what is new in the sums of a process's threads.
    void count(const KnownProcess &process, Counted &counted, const host_device_times &times);

private:
    void count_gaps(const KnownProcess &process, Counted &counted, const host_device_times &times,
                    std::uint32_t drain);
    void count_states(const KnownProcess &process, Counted &counted, const host_device_times &times,
                      std::uint32_t drain);

    series::Family &seconds_;
    series::Family &by_drain_;
    series::Family &state_seconds_;
};

// The longest launch gaps of the last hour, for /api/v1/launch_gaps.
inline constexpr std::string_view gaps_page_name = "launch_gaps";

// The name of the function with this number; empty: not known.
using FunctionName = std::string_view (*)(std::uint16_t number);

struct LongGap {
    std::chrono::nanoseconds began{};  // CLOCK_REALTIME
    host_gap_record record{};
    processes::ProcessNames process;
    std::string gpu;  // the label; empty: not known
    // Empty: another thread's call.
    std::string_view before;
    std::string_view after;
    // Where the thread was when it was blocked the longest, innermost first: the instruction, and
    // return addresses. Only in a trace; empty: it is not known.
    std::vector<std::uint64_t> stack{};
};

// The times of a gap by state, longest first, without what is 0.
[[nodiscard]] std::vector<std::pair<std::string_view, std::uint64_t>> states_of(
    const host_gap_record &record);
// Of the longest time that the thread was blocked without a break; empty: not known, or none.
[[nodiscard]] std::string_view longest_call_of(const host_gap_record &record);
[[nodiscard]] std::string_view longest_filesystem_of(const host_gap_record &record);
// Of the thread: valid UTF-8.
[[nodiscard]] std::string thread_name_of(const host_gap_record &record);

// One object on one line, as in /api/v1/launch_gaps, for sinks: {"event":"launch_gap",...}.
[[nodiscard]] std::string event_line(const LongGap &gap);

// For the aggregating thread.
class LongGapHistory {
public:
    explicit LongGapHistory(std::size_t keep) : keep_(keep) {}

    // Replaces the shortest one, if there is no room.
    void add(LongGap gap);
    // Forgets those that began more than an hour before.
    void forget_old(std::chrono::nanoseconds now);
    // The longest first.
    [[nodiscard]] std::vector<LongGap> list() const;

private:
    std::size_t keep_;
    std::multimap<std::uint64_t, LongGap> gaps_;  // by their length
};

// "launch_gaps": docs/api.md describes the parameters and the members.
[[nodiscard]] ApiPage gaps_page(std::vector<LongGap> all);

}  // namespace gpusnoop::probes
