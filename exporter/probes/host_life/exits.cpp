#include "exporter/probes/host_life/exits.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"
#include "exporter/probes/frame/processes/followed_processes.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;

// wait_status as wait() has it.
constexpr std::uint32_t signal_bits = 0x7f;
constexpr std::uint32_t code_shift = 8;
constexpr std::uint32_t code_bits = 0xff;

// What the page is made of.
struct ExitsState {
    std::vector<ProcessExit> all;
    std::vector<JobReport> reports;
    CudaFunctionName function_name;
};

Json origin_json(const life_exit_record &record) {
    if (record.has_origin == 0) {
        return {};
    }
    const life_origin &origin = record.origin;
    Json json = Json::object();
    json["kind"] = sender_name(origin.sender);
    const bool is_process = origin.sender == LIFE_PROCESS;
    json["pid"] = is_process ? Json(origin.tgid) : Json();
    json["comm"] =
        is_process ? Json(to_valid_utf8({origin.comm, ::strnlen(origin.comm, sizeof(origin.comm))},
                                        max_label_bytes))
                   : Json();
    return json;
}

Json call_json(const std::optional<LastCall> &call) {
    if (!call) {
        return {};
    }
    Json json = Json::object();
    json["function"] = call->function;
    json["age_seconds"] = static_cast<double>(call->age.count()) / 1e9;
    json["in_flight"] = call->is_in_flight;
    return json;
}

Json memory_json(const std::optional<GpuProcessEnd> &held) {
    if (!held) {
        return {};
    }
    std::uint64_t all = 0;
    Json gpus = Json::object();
    for (const auto &[gpu, bytes] : held->device_bytes) {
        all += bytes;
        gpus[gpu] = bytes;
    }
    Json json = Json::object();
    json["bytes"] = all;
    json["gpus"] = std::move(gpus);
    json["complete"] = held->is_complete;
    return json;
}

ProcessKey key_of_cuda(const life_exit_record &record) {
    return {record.head.tgid, record.cuda_since_ns};
}

Json to_json(const ProcessExit &exit, CudaFunctionName function_name) {
    const life_exit_record &record = exit.record;
    const ExitStatus status = exit_status_of(record);
    Json json = Json::object();
    json["time"] = utc_time(exit.at);
    json["pid"] = record.head.tgid;
    processes::add_names(json, exit.process);
    json["role"] = role_name(record.reasons);
    json["cause"] = cause_of(record);
    json["code"] = status.code ? Json(*status.code) : Json();
    json["signal"] = status.code ? Json() : Json(status.signal);
    json["sender"] = origin_json(record);
    json["lifetime_seconds"] = static_cast<double>(record.lifetime_ns) / 1e9;
    json["last_cuda_call"] = call_json(last_call_of(record, function_name));
    json["device_memory"] = memory_json(exit.held);
    return json;
}

ApiResponse write_exits(const ExitsState &state, const ListQuery &query) {
    std::string text = "{";
    JsonList list(text, exits_page_name, query.limit());
    for (const ProcessExit &exit : state.all) {
        if (query.wants("cause", cause_of(exit.record)) &&
            query.wants_process(exit.record.head.tgid, exit.process)) {
            list.add([&] { return to_json(exit, state.function_name); });
        }
    }
    std::size_t left_out = list.end();
    text += ',';
    JsonList reports(text, "reports", query.limit());
    for (const JobReport &report : state.reports) {
        const bool has_cause = std::ranges::any_of(
            report.causes, [&](const auto &cause) { return query.wants("cause", cause.first); });
        if ((has_cause || (report.causes.empty() && query.wants("cause", ""))) &&
            query.wants_process(report.pid, report.names)) {
            reports.add([&] { return to_json(report); });
        }
    }
    left_out += reports.end();
    return end_page(std::move(text), left_out);
}

}  // namespace

std::string_view sender_name(std::uint32_t sender) {
    switch (sender) {
        case LIFE_SELF:
            return "self";
        case LIFE_PROCESS:
            return "process";
        default:
            return "kernel";
    }
}

std::string signal_name(std::uint32_t signal) {
    const int number = static_cast<int>(signal);
    // The C library keeps the first two of the kernel's real-time signals for itself.
    constexpr int kernel_rtmin = 32;
    if (number >= kernel_rtmin) {
        return "SIGRT" + std::to_string(number);
    }
    const char *const name = ::sigabbrev_np(number);
    return name == nullptr ? "SIG" + std::to_string(number) : std::string("SIG") + name;
}

ExitStatus exit_status_of(const life_exit_record &record) {
    const std::uint32_t signal = record.wait_status & signal_bits;
    if (signal != 0) {
        return {.code = {}, .signal = signal_name(signal)};
    }
    return {.code = record.wait_status >> code_shift & code_bits, .signal = {}};
}

std::string cause_of(const life_exit_record &record) {
    if ((record.wait_status & signal_bits) == SIGKILL && record.out_of_memory != 0) {
        return std::string(cause_oom);
    }
    const ExitStatus status = exit_status_of(record);
    return status.code ? std::to_string(*status.code) : status.signal;
}

std::optional<LastCall> last_call_of(const life_exit_record &record,
                                     CudaFunctionName function_name) {
    if (record.last_call == 0 || function_name == nullptr) {
        return std::nullopt;
    }
    const std::uint64_t ended_ns = record.head.at_ns;
    const std::uint64_t began_ns =
        std::min<std::uint64_t>(ended_ns, LAST_CALL_BEGAN_NS(record.last_call));
    return LastCall{
        .function = function_name(static_cast<std::uint16_t>(LAST_CALL_FUNCTION(record.last_call))),
        .age = std::chrono::nanoseconds(static_cast<std::int64_t>(ended_ns - began_ns)),
        .is_in_flight = LAST_CALL_IS_INSIDE(record.last_call) != 0};
}

bool add_late_call(life_exit_record &exit, const life_last_call_record &late) {
    if (exit.head.tgid != late.head.tgid || exit.head.since_ns != late.head.since_ns) {
        return false;
    }
    if (exit.last_call <= late.last_call) {
        exit.last_call = late.last_call;
        exit.cuda_since_ns = late.cuda_since_ns;
    }
    return true;
}

void ExitHistory::add(ProcessExit exit) {
    if (keep_ == 0) {
        return;
    }
    if (exits_.size() == keep_) {
        exits_.pop_front();
    }
    exits_.push_back(std::move(exit));
    take_unused(exits_.back());
}

void ExitHistory::take_unused(ProcessExit &exit) {
    if (auto held = unused_.extract(key_of_cuda(exit.record))) {
        exit.held = std::move(held.mapped());
    }
}

void ExitHistory::add(const life_last_call_record &late) {
    const auto found = std::find_if(exits_.rbegin(), exits_.rend(), [&](ProcessExit &exit) {
        return add_late_call(exit.record, late);
    });
    if (found != exits_.rend()) {
        take_unused(*found);
    }
}

void ExitHistory::add(const GpuProcessEnd &end) {
    if (keep_ == 0) {
        return;
    }
    const auto found = std::find_if(exits_.rbegin(), exits_.rend(), [&](const ProcessExit &exit) {
        return key_of_cuda(exit.record) == end.key;
    });
    if (found != exits_.rend()) {
        found->held = end;
    } else {
        unused_.insert_or_assign(end.key, end);
    }
}

void ExitHistory::forget_unused(std::chrono::nanoseconds until) {
    std::erase_if(unused_, [&](const auto &one) { return one.second.ended <= until; });
}

EndsOverview ExitHistory::overview() const {
    EndsOverview overview;
    std::array<std::size_t, 2> counts{};  // by is_bad
    for (auto exit = exits_.rbegin(); exit != exits_.rend(); ++exit) {
        const std::string cause = cause_of(exit->record);
        const bool is_bad = cause != "0" && cause != "SIGTERM" && cause != "SIGINT";
        const bool is_of_gpu =
            role_name(exit->record.reasons) == followed_role_names.at(FOLLOWED_GPU);
        if (!is_bad && !is_of_gpu) {
            continue;  // a data loader's
        }
        overview.count++;
        if (++counts.at(is_bad ? 1 : 0) > max_overview_ends) {
            continue;
        }
        EndOverview &end = overview.last.emplace_back();
        end.at = exit->at;
        end.pid = exit->record.head.tgid;
        end.names = exit->process;
        end.cause = cause;
        end.is_bad = is_bad;
        if (exit->held) {
            end.held_bytes.emplace(0);
            for (const auto &[gpu, bytes] : exit->held->device_bytes) {
                *end.held_bytes += bytes;
            }
        }
    }
    return overview;
}

ApiPage exits_page(std::vector<ProcessExit> all, std::vector<JobReport> reports,
                   CudaFunctionName function_name) {
    return list_page(exits_page_name, process_parameters({{"cause"}}),
                     ExitsState{std::move(all), std::move(reports), function_name}, write_exits);
}

}  // namespace gpusnoop::probes
