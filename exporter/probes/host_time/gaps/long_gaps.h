// The longest launch gaps of the last hour, for /api/v1/launch_gaps.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/host_time/host_time.h"
#include "exporter/probes/frame/api/api_page.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

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
