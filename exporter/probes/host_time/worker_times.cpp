#include "exporter/probes/host_time/worker_times.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "exporter/probes/frame/processes/growing_counts.h"
#include "exporter/probes/host_time/calls.h"

namespace gpusnoop::probes {

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

}  // namespace gpusnoop::probes
