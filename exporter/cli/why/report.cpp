#include "exporter/cli/why/report.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "exporter/base/glob.h"
#include "exporter/base/text/text.h"
#include "exporter/cli/top/hanging.h"
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

Result<Report> report_of(const Times &before, const Times &now, const std::string &name) {
    if (now.elapsed_ns <= before.elapsed_ns) {
        return fail("it was restarted in between: run this again");
    }
    Report report{
        .elapsed_ns = now.elapsed_ns - before.elapsed_ns, .findings = {}, .is_of_all = name == "*"};
    for (const auto &[id, process] : now.processes) {
        if (!matches_glob(name, process.names.comm) && !matches_glob(name, process.names.script)) {
            continue;
        }
        Finding finding{.process = process, .conclusion = {}};
        if (const auto known = before.processes.find(id); known != before.processes.end()) {
            finding.process.times = process.times.since(known->second.times);
        }
        if (const auto conclusion = conclude(finding.process.times, report.elapsed_ns)) {
            finding.conclusion = *conclusion;
            report.findings.push_back(std::move(finding));
        }
    }
    std::ranges::stable_sort(report.findings, is_worse);
    return report;
}

namespace {

bool hangs(const Finding &finding) {
    return finding.conclusion.limit == probes::HostLimit::hangs;
}

}  // namespace

bool has_hangs(const Report &report) {
    return std::ranges::any_of(report.findings, hangs);
}

void add_sites(Report &report, std::string_view in_flight) {
    const auto calls = top::parse_in_flight(in_flight);
    for (Finding &finding : report.findings) {
        if (!calls || !hangs(finding)) {
            continue;
        }
        const auto found = std::ranges::find_if(*calls, [&](const top::CallInFlight &one) {
            return one.pid == finding.process.pid &&
                   printable(one.call.function) == finding.conclusion.call.function;
        });
        finding.site = found == calls->end() ? "" : printable(found->call.site);
    }
}

namespace {

using probes::HostLimit;

int rank_of(HostLimit limit) {
    switch (limit) {
        case HostLimit::hangs:
            return 0;
        case HostLimit::gpu:
            return 2;
        case HostLimit::idle:
            return 3;
        default:
            return 1;
    }
}

double limited_ns(const Finding &finding) {
    const std::uint64_t wall = finding.process.times.cells.wall_ns() - finding.conclusion.idle_ns;
    return finding.conclusion.share * static_cast<double>(wall);
}

std::uint64_t least_time(const Report &report) {
    constexpr std::uint64_t second = 1'000'000'000;
    constexpr std::uint64_t part = 10;  // of a time that is too short for programs of a second
    return report.is_of_all ? std::min(second, report.elapsed_ns / part) : 0;
}

}  // namespace

bool is_worse(const Finding &one, const Finding &other) {
    const auto key = [](const Finding &finding) {
        return std::tuple(rank_of(finding.conclusion.limit), -limited_ns(finding));
    };
    return key(one) < key(other);
}

Programs programs_of(const Report &report) {
    using Names = std::tuple<std::string, std::string, std::string, std::string>;
    std::map<Names, Program> by_names;
    for (const Finding &finding : report.findings) {
        const auto &names = finding.process.names;
        Program &program =
            by_names[{names.comm, names.script, names.container, names.slurm_job_id}];
        program.processes.push_back(&finding);
        program.wall_ns += finding.process.times.cells.wall_ns();
    }
    Programs programs{.shown = {}, .least_ns = least_time(report)};
    for (auto &[names, program] : by_names) {
        if (program.wall_ns < programs.least_ns) {
            programs.short_lived++;
            continue;
        }
        std::ranges::stable_sort(program.processes, [](const Finding *one, const Finding *other) {
            return is_worse(*one, *other);
        });
        programs.shown.push_back(std::move(program));
    }
    std::ranges::stable_sort(programs.shown, [](const Program &one, const Program &other) {
        return is_worse(*one.processes.front(), *other.processes.front());
    });
    const std::size_t shown = std::min(programs.shown.size(), most_shown_programs);
    programs.over_limit = programs.shown.size() - shown;
    programs.shown.resize(shown);
    return programs;
}

// The JSON of `why`.

namespace {

using Json = nlohmann::ordered_json;

double seconds(std::uint64_t ns) {
    return static_cast<double>(ns) / 1e9;
}

Json to_json(const Finding &finding) {
    const Process &process = finding.process;
    const probes::Conclusion &conclusion = finding.conclusion;
    Json json = {{"pid", process.pid}};
    processes::add_names(json, process.names);
    json["threads"] = process.threads;
    json["conclusion"] = probes::key_of(conclusion.limit);
    json["share"] = conclusion.share;
    json["sentence"] = probes::sentence_of(conclusion);
    json["advice"] = probes::advice_of(conclusion.limit);
    json["wall_seconds"] = seconds(process.times.cells.wall_ns());
    json["idle_seconds"] = seconds(conclusion.idle_ns);
    json["seconds"] = probes::to_json(process.times.cells);
    json["starved_share"] = conclusion.starved;
    json["launch_gaps"] = probes::to_json(process.times.gaps);
    json["workers"] = probes::to_json(process.times.workers);
    json["call"] = probes::to_json(process.times.call);
    json["site"] = finding.site.empty() ? Json() : Json(finding.site);
    return json;
}

}  // namespace

std::string report_json(const Report &report) {
    Json processes = Json::array();
    for (const Finding &finding : report.findings) {
        processes.push_back(to_json(finding));
    }
    const Json json = {{"elapsed_seconds", seconds(report.elapsed_ns)},
                       {"processes", std::move(processes)}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gpusnoop::why
