#include "exporter/probes/host_time/process_times.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "exporter/base/seconds.h"
#include "exporter/probes/frame/processes/process_counts.h"
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

WorkerTimes WorkerTimes::since(const WorkerTimes &before) const {
    WorkerTimes grown{.processes = processes, .state_ns = {}, .files = files};
    std::ranges::transform(state_ns, before.state_ns, grown.state_ns.begin(), difference);
    for (auto &[filesystem, waits] : grown.files) {
        if (const auto known = before.files.find(filesystem); known != before.files.end()) {
            waits.waits = difference(waits.waits, known->second.waits);
            waits.ns = difference(waits.ns, known->second.ns);
        }
    }
    return grown;
}

nlohmann::ordered_json to_json(const WorkerTimes &workers) {
    auto seconds = nlohmann::ordered_json::object();
    for (std::uint32_t state = 0; state < HOST_STATE_COUNT; state++) {
        if (workers.state_ns[state] > 0) {
            seconds[std::string(host_state_name(state))] =
                static_cast<double>(workers.state_ns[state]) / 1e9;
        }
    }
    auto files = nlohmann::ordered_json::object();
    for (const auto &[filesystem, waits] : workers.files) {
        if (waits.waits > 0) {
            files[filesystem] = {{"waits", waits.waits},
                                 {"seconds", static_cast<double>(waits.ns) / 1e9}};
        }
    }
    return {{"processes", workers.processes},
            {"seconds", std::move(seconds)},
            {"file_waits", std::move(files)}};
}

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

nlohmann::ordered_json to_json(const std::optional<CurrentCall> &call) {
    return call ? nlohmann::ordered_json{{"function", call->function},
                                         {"age_seconds", in_seconds(call->age_ns)}}
                : nlohmann::ordered_json();
}

}  // namespace gpusnoop::probes
