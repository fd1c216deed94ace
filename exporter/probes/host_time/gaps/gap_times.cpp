#include "exporter/probes/host_time/gaps/gap_times.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>

#include "exporter/probes/frame/processes/growing_counts.h"
#include "exporter/probes/host_time/calls.h"

namespace gpusnoop::probes {

namespace {

GapTimes::Sum combined(const GapTimes::Sum &one, const GapTimes::Sum &other, auto with) {
    GapTimes::Sum sum{.gaps = with(one.gaps, other.gaps), .ns = with(one.ns, other.ns)};
    std::ranges::transform(one.state_ns, other.state_ns, sum.state_ns.begin(), with);
    return sum;
}

}  // namespace

std::uint64_t GapTimes::Sum::explained_ns() const {
    return std::accumulate(state_ns.begin(), state_ns.end(), std::uint64_t{0});
}

void GapTimes::add(const GapTimes &more) {
    for (std::size_t drain = 0; drain < HOST_DRAIN_COUNT; drain++) {
        by_drain[drain] = combined(by_drain[drain], more.by_drain[drain], std::plus<>());
    }
}

GapTimes GapTimes::since(const GapTimes &before) const {
    GapTimes grown;
    for (std::size_t drain = 0; drain < HOST_DRAIN_COUNT; drain++) {
        grown.by_drain[drain] = combined(by_drain[drain], before.by_drain[drain], difference);
    }
    return grown;
}

std::uint64_t GapTimes::gaps() const {
    std::uint64_t all = 0;
    for (const Sum &sum : by_drain) {
        all += sum.gaps;
    }
    return all;
}

GapTimes::Sum GapTimes::after_waits() const {
    return combined(by_drain[HOST_DRAIN_stream], by_drain[HOST_DRAIN_device], std::plus<>());
}

nlohmann::ordered_json to_json(const GapTimes &gaps) {
    auto json = nlohmann::ordered_json::object();
    for (std::uint32_t drain = 0; drain < HOST_DRAIN_COUNT; drain++) {
        const GapTimes::Sum &sum = gaps.by_drain[drain];
        if (sum.gaps == 0) {
            continue;
        }
        auto states = nlohmann::ordered_json::object();
        for (std::uint32_t state = 0; state < HOST_GAP_STATES; state++) {
            if (sum.state_ns[state] > 0) {
                states[std::string(host_gap_state_name(state))] =
                    static_cast<double>(sum.state_ns[state]) / 1e9;
            }
        }
        json[std::string(host_drain_name(drain))] = {{"gaps", sum.gaps},
                                                     {"seconds", static_cast<double>(sum.ns) / 1e9},
                                                     {"states", std::move(states)}};
    }
    return json;
}

}  // namespace gpusnoop::probes
