#include "exporter/probes/host_time/cells.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "exporter/probes/frame/processes/growing_counts.h"
#include "exporter/probes/host_time/calls.h"

namespace gpusnoop::probes {

namespace {

std::uint64_t sum_of(const auto &numbers) {
    return std::accumulate(std::begin(numbers), std::end(numbers), std::uint64_t{0});
}

}  // namespace

// The rest of the wall time is spent running: inside of calls, as far as the calls' time is not
// spent otherwise, and the rest of it outside. An interval that was open in the last reading may
// have become a little shorter since: then there is less to count here.
void HostCells::grow_to(const host_times &times) {
    for (std::size_t phase = 0; phase < HOST_PHASE_COUNT; phase++) {
        for (std::size_t state = HOST_STATE_running + 1; state < HOST_STATE_COUNT; state++) {
            ns[phase][state] =
                std::max<std::uint64_t>(ns[phase][state], times.off_ns[phase][state]);
        }
    }
    std::uint64_t left = difference(times.wall_ns, wall_ns());
    for (std::size_t phase = HOST_host + 1; phase < HOST_PHASE_COUNT; phase++) {
        std::uint64_t &running = ns[phase][HOST_STATE_running];
        const std::uint64_t ran = difference(times.call_ns[phase], sum_of(times.off_ns[phase]));
        const std::uint64_t added = std::min(left, difference(ran, running));
        running += added;
        left -= added;
    }
    ns[HOST_host][HOST_STATE_running] += left;
}

std::uint64_t HostCells::wall_ns() const {
    std::uint64_t wall = 0;
    for (const auto &states : ns) {
        wall += sum_of(states);
    }
    return wall;
}

HostCells HostCells::since(const HostCells &before) const {
    HostCells grown;
    for (std::size_t phase = 0; phase < HOST_PHASE_COUNT; phase++) {
        std::ranges::transform(ns[phase], before.ns[phase], grown.ns[phase].begin(), difference);
    }
    return grown;
}

nlohmann::ordered_json to_json(const HostCells &cells) {
    auto json = nlohmann::ordered_json::object();
    for (std::uint32_t phase = 0; phase < HOST_PHASE_COUNT; phase++) {
        for (std::uint32_t state = 0; state < HOST_STATE_COUNT; state++) {
            if (const std::uint64_t ns = cells.ns[phase][state]; ns > 0) {
                json[std::string(host_phase_name(phase))][std::string(host_state_name(state))] =
                    static_cast<double>(ns) / 1e9;
            }
        }
    }
    return json;
}

}  // namespace gpusnoop::probes
