#include "exporter/cli/why/gaps_text.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/cli/why/numbers.h"
#include "exporter/probes/host_time/calls.h"

namespace gpusnoop::why {

namespace {

// "71 % pipe, 18 % throttled, 11 % running".
std::string gap_states_text(const probes::GapTimes::Sum &sum) {
    std::vector<std::pair<std::uint64_t, std::string_view>> states;
    for (std::uint32_t state = 0; state < HOST_GAP_STATES; state++) {
        states.emplace_back(sum.state_ns[state], probes::host_gap_state_name(state));
    }
    std::ranges::stable_sort(states, std::ranges::greater{}, [](auto &one) { return one.first; });
    const std::uint64_t explained = sum.explained_ns();
    states.emplace_back(sum.ns > explained ? sum.ns - explained : 0, "in short gaps");
    std::string text;
    for (const auto &[ns, name] : states) {
        const double part = percent(ns, sum.ns);
        text += part < least_shown_percent
                    ? ""
                    : fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", part, name);
    }
    return text;
}

std::string line(std::string_view what, const probes::GapTimes::Sum &sum, std::uint64_t wall_ns) {
    return percent(sum.ns, wall_ns) < least_shown_percent
               ? ""
               : fmt::format("  {} had no work from it for {}, in {} gap{}: {}.\n", what,
                             seconds_text(sum.ns, wall_ns), sum.gaps, sum.gaps == 1 ? "" : "s",
                             gap_states_text(sum));
}

}  // namespace

std::string gaps_text(const probes::GapTimes &gaps, std::uint64_t wall_ns) {
    return line("The GPU", gaps.by_drain[HOST_DRAIN_device], wall_ns) +
           line("A stream", gaps.by_drain[HOST_DRAIN_stream], wall_ns);
}

}  // namespace gpusnoop::why
