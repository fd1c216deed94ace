#include "exporter/probes/host_life/reports/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "exporter/base/seconds.h"
#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"
#include "exporter/probes/frame/api/list_page.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;

std::string bound(bool is_at_least) {
    return is_at_least ? "\u2265 " : "";
}

std::string subject_of(const JobReport &report) {
    const processes::ProcessNames &names = report.names;
    switch (report.kind) {
        case JobReport::Kind::container:
            return "container " + names.container.substr(0, 12);
        case JobReport::Kind::slurm_step:
            return "step " + report.slurm_step_id + " of Slurm job " + names.slurm_job_id;
        case JobReport::Kind::process:
            break;
    }
    return fmt::format("{} (pid {})", names.script.empty() ? names.comm : names.script, report.pid);
}

std::string gpus_text(const JobReport &report) {
    std::string text;
    for (const auto &[gpu, held] : report.gpus) {
        text += fmt::format("{}GPU {}: peak {}{}, mean {}{}", text.empty() ? "" : "; ", gpu,
                            bound(report.at_least.memory), bytes_text(held.peak_bytes),
                            bound(report.at_least.memory), bytes_text(held.mean_bytes));
        if (held.unfreed_bytes > 0) {
            text += fmt::format(", unfreed {}{}", bound(report.at_least.memory),
                                bytes_text(held.unfreed_bytes));
        }
    }
    return text.empty() ? "no GPU memory" : text;
}

std::string copies_text(const JobReport &report) {
    std::string text;
    for (const auto &[kind, bytes] : report.copied_bytes) {
        text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", kind,
                            bound(report.at_least.calls), bytes_text(bytes));
    }
    return text.empty() ? bound(report.at_least.calls) + bytes_text(0) : text;
}

std::string count_or_unknown(std::optional<std::uint64_t> count, bool is_at_least) {
    return count ? bound(is_at_least) + count_text(*count) : "unknown";
}

// "exit code 0", or of several processes "exit code 0 (7), SIGKILL (1)".
std::string ends_text(const JobReport &report) {
    std::string text;
    for (const auto &[cause, count] : report.causes) {
        text += text.empty() ? "" : ", ";
        text += (is_digit(cause.front()) ? "exit code " : "") + cause;
        if (report.kind != JobReport::Kind::process) {
            text += " (" + count_text(count) + ")";
        }
    }
    return text.empty() ? "unknown" : text;
}

// The members whose numbers are lower bounds.
Json lower_bounds_json(const JobReport::AtLeast &at_least) {
    Json names = Json::array();
    const std::vector<std::pair<bool, std::vector<const char *>>> all = {
        {at_least.lasted, {"lasted_seconds"}},
        {at_least.memory, {"gpus"}},
        {at_least.launches, {"launches"}},
        {at_least.calls, {"copied_bytes", "errors"}},
        {at_least.waited, {"gpu_waited_seconds"}},
        {at_least.slow, {"slow_calls", "hanging_calls"}}};
    for (const auto &[is_one, members] : all) {
        for (const char *const member : members) {
            if (is_one) {
                names.push_back(member);
            }
        }
    }
    return names;
}

Json whole_json(const JobReport &report, Json json) {
    json["time"] = utc_time(report.ended);
    json["kind"] = to_string(report.kind);
    json["summary"] = sentence_of(report);
    json["pid"] = report.pid == 0 ? Json() : Json(report.pid);
    processes::add_names(json, report.names);
    json["pod_uid"] = report.pod_uid;
    json["slurm_step_id"] = report.slurm_step_id;
    json["processes"] = report.processes;
    json["lasted_seconds"] = in_seconds(report.lasted);
    Json gpus = Json::object();
    for (const auto &[gpu, held] : report.gpus) {
        gpus[gpu] = {{"peak_bytes", held.peak_bytes},
                     {"mean_bytes", held.mean_bytes},
                     {"unfreed_bytes", held.unfreed_bytes}};
    }
    json["gpus"] = std::move(gpus);
    json["launches"] = report.launches;
    json["copied_bytes"] = report.copied_bytes;
    json["errors"] = report.errors;
    json["gpu_waited_seconds"] = report.waited ? Json(in_seconds(*report.waited)) : Json();
    json["slow_calls"] = report.slow_calls ? Json(*report.slow_calls) : Json();
    json["hanging_calls"] = report.hanging_calls ? Json(*report.hanging_calls) : Json();
    json["causes"] = report.causes;
    json["lower_bounds"] = lower_bounds_json(report.at_least);
    return json;
}

}  // namespace

std::string_view to_string(JobReport::Kind kind) {
    switch (kind) {
        case JobReport::Kind::container:
            return "container";
        case JobReport::Kind::slurm_step:
            return "slurm_step";
        case JobReport::Kind::process:
            break;
    }
    return "process";
}

std::string sentence_of(const JobReport &report) {
    const JobReport::AtLeast &at_least = report.at_least;
    std::string text = fmt::format("{} lasted {}{}", subject_of(report), bound(at_least.lasted),
                                   age_text(in_seconds(report.lasted)));
    if (report.kind != JobReport::Kind::process) {
        text += fmt::format(", {} GPU process{}", count_text(report.processes),
                            report.processes == 1 ? "" : "es");
    }
    text +=
        fmt::format("; {}; {}{} launch{}; copied {}; {}{} error{}, {} slow and {} hanging calls; ",
                    gpus_text(report), bound(at_least.launches), count_text(report.launches),
                    report.launches == 1 ? "" : "es", copies_text(report), bound(at_least.calls),
                    count_text(report.errors), report.errors == 1 ? "" : "s",
                    count_or_unknown(report.slow_calls, at_least.slow),
                    count_or_unknown(report.hanging_calls, at_least.slow));
    text += report.waited ? fmt::format("the GPU waited {}{} for the host", bound(at_least.waited),
                                        age_text(in_seconds(*report.waited)))
                          : "unknown how long the GPU waited for the host";
    return text + "; end: " + ends_text(report);
}

Json to_json(const JobReport &report) {
    return whole_json(report, Json::object());
}

std::string job_report_line(const JobReport &report) {
    return to_text(whole_json(report, {{"event", "job_report"}}));
}

}  // namespace gpusnoop::probes
