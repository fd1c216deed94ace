#include "exporter/cli/why/times.h"

#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "exporter/base/text/text.h"
#include "exporter/probes/host_time/calls.h"

namespace gpusnoop::why {

namespace {

using Json = nlohmann::ordered_json;

std::uint64_t nanoseconds(const Json &seconds) {
    constexpr double most = 9e9;  // 285 years
    const double value = seconds.get<double>();
    if (!(value >= 0 && value <= most)) {
        throw std::out_of_range("a time");
    }
    return static_cast<std::uint64_t>(std::llround(value * 1e9));
}

std::string text_of(const Json &process, const char *name) {
    return printable(process.at(name).get<std::string>());
}

// The number of a name; `other` for a name of a later version.
template <typename NameOf>
std::uint32_t number_of(const std::string &name, std::uint32_t count, std::uint32_t other,
                        NameOf name_of) {
    for (std::uint32_t number = 0; number < count; number++) {
        if (name_of(number) == name) {
            return number;
        }
    }
    return other;
}

probes::HostCells cells_of(const Json &seconds) {
    probes::HostCells cells;
    for (const auto &[phase, states] : seconds.get_ref<const Json::object_t &>()) {
        auto &row =
            cells.ns[number_of(phase, HOST_PHASE_COUNT, HOST_other, probes::host_phase_name)];
        for (const auto &[state, value] : states.get_ref<const Json::object_t &>()) {
            row[number_of(state, HOST_STATE_COUNT, HOST_STATE_other, probes::host_state_name)] +=
                nanoseconds(value);
        }
    }
    return cells;
}

probes::GapTimes gaps_of(const Json &drains) {
    probes::GapTimes gaps;
    for (const auto &[drain, json] : drains.get_ref<const Json::object_t &>()) {
        auto &sum = gaps.by_drain[number_of(drain, HOST_DRAIN_COUNT, HOST_DRAIN_none,
                                            probes::host_drain_name)];
        sum.gaps += json.at("gaps").get_ref<const Json::number_unsigned_t &>();
        sum.ns += nanoseconds(json.at("seconds"));
        for (const auto &[state, value] : json.at("states").get_ref<const Json::object_t &>()) {
            sum.state_ns[number_of(state, HOST_GAP_STATES, HOST_STATE_other,
                                   probes::host_gap_state_name)] += nanoseconds(value);
        }
    }
    return gaps;
}

probes::WorkerTimes workers_of(const Json &json) {
    probes::WorkerTimes workers;
    workers.processes = json.at("processes").get_ref<const Json::number_unsigned_t &>();
    for (const auto &[state, value] : json.at("seconds").get_ref<const Json::object_t &>()) {
        workers.state_ns[number_of(state, HOST_STATE_COUNT, HOST_STATE_other,
                                   probes::host_state_name)] += nanoseconds(value);
    }
    for (const auto &[filesystem, waits] :
         json.at("file_waits").get_ref<const Json::object_t &>()) {
        workers.files[printable(filesystem)] = {
            .waits = waits.at("waits").get_ref<const Json::number_unsigned_t &>(),
            .ns = nanoseconds(waits.at("seconds"))};
    }
    return workers;
}

std::optional<probes::CurrentCall> call_of(const Json &json) {
    return json.is_null()
               ? std::nullopt
               : std::optional(probes::CurrentCall{.function = text_of(json, "function"),
                                                   .age_ns = nanoseconds(json.at("age_seconds"))});
}

Process process_of(const Json &json) {
    Process process;
    process.pid = json.at("pid").get<std::uint32_t>();
    process.threads = json.at("threads").get<std::uint64_t>();
    process.names = {.comm = text_of(json, "comm"),
                     .script = text_of(json, "script"),
                     .container = text_of(json, "container_id"),
                     .slurm_job_id = text_of(json, "slurm_job_id"),
                     .user = text_of(json, "user")};
    process.times = {.cells = cells_of(json.at("seconds")),
                     .gaps = gaps_of(json.at("launch_gaps")),
                     .workers = workers_of(json.at("workers")),
                     .call = call_of(json.at("call"))};
    return process;
}

}  // namespace

Result<Times> parse_times(std::string_view json) {
    try {
        const Json document = Json::parse(json);
        Times times;
        times.elapsed_ns = nanoseconds(document.at("elapsed_seconds"));
        for (const Json &process : document.at("processes")) {
            times.processes[process.at("id").get<std::string>()] = process_of(process);
        }
        return times;
    } catch (const std::exception &) {
        return fail("its answer is not a list of launching threads in this version's format");
    }
}

}  // namespace gpusnoop::why
