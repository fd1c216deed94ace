#include "exporter/probes/functions/report/slow_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "exporter/base/log.h"
#include "exporter/base/seconds.h"
#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

// Slow calls come from few call sites.
constexpr std::size_t max_known_stacks = 1'024;
// A log line should not need more.
constexpr std::size_t max_stack_text = 1'024;

std::string arguments_text(const SlowCall &call) {
    std::string text;
    for (const auto &[position, value] : call.arguments) {
        text +=
            (text.empty() ? "" : " ") + std::to_string(position) + "=" + hexadecimal_literal(value);
    }
    return text;
}

void write_line(const SlowCall &call) {
    log::info(
        "slow call",
        {{"probe", "functions"},
         {"function", call.function->name},
         {"library", call.function->library},
         {"duration_seconds", static_cast<double>(call.duration_ns) / 1e9},
         {"ended", utc_time(call.ended)},
         {"pid", call.pid},
         {"tid", call.tid},
         {"comm", call.comm},
         {"script", call.script},
         {"thread", call.thread},
         {"container_id", call.container},
         {"slurm_job_id", call.slurm_job_id},
         {"user", call.user},
         {"arguments", arguments_text(call)},
         {"result", call.result ? hexadecimal_literal(*call.result) : ""},
         {"error", call.error.value_or("")},
         {"stack", call.stack == nullptr ? "" : symbols::stack_line(*call.stack, max_stack_text)}});
}

}  // namespace

SlowCall describe(const FunctionCall &call, nanoseconds ended) {
    SlowCall one;
    one.ended = ended;
    one.is_entry = call.record->head.type == FUNC_RECORD_BEGIN;
    one.has_ended = !one.is_entry && call.record->head.type != FUNC_RECORD_ENTRY;
    one.began_ns = began_ns(*call.record);
    one.function = *call.function;
    one.duration_ns = call.record->duration_ns;
    one.pid = call.record->head.tgid;
    one.tid = call.record->tid;
    one.ppid = call.process->ppid;
    static_cast<processes::ProcessNames &>(one) = *call.process;
    one.pod_uid = call.process->pod_uid;
    if (call.slow != nullptr) {
        one.thread = to_valid_utf8({call.slow->comm, sizeof(call.slow->comm)}, FUNC_COMM_BYTES * 3);
    }
    one.arguments = arguments_of(call);
    one.result = shown_result(call);
    if (call.error != nullptr) {
        one.error = *call.error;
    }
    return one;
}

std::optional<std::uint64_t> whole_result(const FunctionCall &call) {
    return call.record->head.type == FUNC_RECORD_RETURN ? std::optional(call.record->result)
                                                        : std::nullopt;
}

std::optional<std::uint64_t> shown_result(const FunctionCall &call) {
    const auto whole = whole_result(call);
    switch ((*call.function)->options.errors) {
        case ErrorKind::none:
            return std::nullopt;
        case ErrorKind::null:
            return whole == 0U ? whole : std::nullopt;
        default:
            // A function that returns an int leaves the upper half of the register undefined.
            return whole ? std::optional(*whole & 0xffff'ffffU) : std::nullopt;
    }
}

std::vector<std::pair<std::uint8_t, std::uint64_t>> arguments_of(const FunctionCall &call) {
    std::vector<std::pair<std::uint8_t, std::uint64_t>> values;
    if (call.arguments != nullptr) {
        for (const std::uint8_t position : (*call.function)->options.arguments) {
            if (position >= 1 && position <= FUNC_ARGUMENTS) {
                values.emplace_back(position, call.arguments->argument[position - 1]);
            }
        }
    }
    return values;
}

std::vector<std::uint64_t> stack_of(const func_slow_record &record) {
    std::vector<std::uint64_t> addresses;
    const std::size_t count = std::min<std::size_t>(record.frame_count, FUNC_STACK_FRAMES);
    for (std::size_t i = 0; i < count; i++) {
        const std::uint64_t address = record.frames[i];
        if (address != 0 && address != record.trampoline) {
            addresses.push_back(address);
        }
    }
    return addresses;
}

SlowCallHistory::SlowCallHistory(Settings settings, Ask ask)
    : settings_(std::move(settings)), ask_(std::move(ask)), log_limit_(settings_.log_per_second) {}

void SlowCallHistory::on_call(const FunctionCall &call, nanoseconds ended, nanoseconds now) {
    const auto one = std::make_shared<SlowCall>(describe(call, ended));
    calls_.push_back(one);
    while (calls_.size() > settings_.keep) {
        calls_.pop_front();
    }
    if (call.slow == nullptr) {
        complete(*one, now);
    } else {
        find_stack(one, call, now);
    }
}

void SlowCallHistory::find_stack(const std::shared_ptr<SlowCall> &one, const FunctionCall &call,
                                 nanoseconds now) {
    StackKey key{call.process->key, stack_of(*call.slow)};
    if (const auto known = known_.find(key); known != known_.end()) {
        one->stack = known->second;
        return complete(*one, now);
    }
    const auto asked = asked_.find(key);
    if (asked != asked_.end() && pending_.at(asked->second).calls.size() < max_pending) {
        pending_.at(asked->second).calls.push_back(one);
        return;
    }
    if (asked != asked_.end() || pending_.size() >= max_pending) {
        stacks_lost_++;
        return complete(*one, now);
    }
    const std::uint64_t ticket = next_ticket_++;
    asked_.emplace(key, ticket);
    ask_({ticket, one->pid, key.second, call.slow->code_start});
    pending_.emplace(ticket, Pending{{one}, std::move(key)});
}

void SlowCallHistory::on_stacks(std::vector<symbols::StackReply> answers, nanoseconds now) {
    for (symbols::StackReply &answer : answers) {
        auto found = pending_.extract(answer.ticket);
        if (found.empty()) {
            continue;
        }
        const auto stack =
            std::make_shared<const std::vector<symbols::Frame>>(std::move(answer.frames));
        for (const auto &one : found.mapped().calls) {
            one->stack = stack;
            complete(*one, now);
        }
        asked_.erase(found.mapped().key);
        if (known_.size() >= max_known_stacks) {
            known_.clear();
        }
        known_.emplace(std::move(found.mapped().key), stack);
    }
}

void SlowCallHistory::complete(const SlowCall &one, nanoseconds now) {
    if (settings_.log_per_second > 0) {
        tidy(now);
        if (log_limit_.allow(now)) {
            write_line(one);
        } else {
            not_logged_++;
        }
    }
    if (settings_.on_complete) {
        settings_.on_complete(one);
    }
}

void SlowCallHistory::tidy(nanoseconds now) {
    if (!log_limit_.is_over(now)) {
        return;
    }
    if (const std::uint64_t count = log_limit_.take_suppressed(); count > 0) {
        log::info("slow calls left out of the log: more than log_per_second",
                  {{"probe", "functions"}, {"not_logged", count}});
    }
}

std::vector<SlowCall> SlowCallHistory::list() const {
    std::vector<SlowCall> all;
    all.reserve(calls_.size());
    for (const auto &one : std::views::reverse(calls_)) {
        all.push_back(*one);
    }
    // Calls come through two rings.
    std::ranges::sort(all, std::ranges::greater{}, &SlowCall::ended);
    return all;
}

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::optional<std::uint64_t> &value) {
    return value ? Json(hexadecimal_literal(*value)) : Json();
}

Json to_json(const std::vector<std::pair<std::uint8_t, std::uint64_t>> &arguments) {
    Json json = Json::object();
    for (const auto &[position, value] : arguments) {
        json[std::to_string(position)] = hexadecimal_literal(value);
    }
    return json;
}

Json to_json_or_null(std::uint32_t id) {
    return id != 0 ? Json(id) : Json();
}

// A thread begins one call at a time.
std::string id_of(std::uint32_t tid, std::uint64_t began_ns) {
    return std::to_string(tid) + "-" + std::to_string(began_ns);
}

}  // namespace

std::string call_id(const SlowCall &call) {
    return id_of(call.tid, call.began_ns);
}

std::string to_json(const SlowCall &call, const std::string &event) {
    Json json = Json::object();
    if (!event.empty()) {
        json["event"] = event;
    }
    json["id"] = call_id(call);
    json["time"] = utc_time(call.ended);
    json["function"] = call.function->name;
    json["library"] = call.function->library;
    json["duration_seconds"] = call.has_ended ? Json(in_seconds(call.duration_ns)) : Json();
    json["pid"] = call.pid;
    json["tid"] = call.tid;
    json["ppid"] = to_json_or_null(call.ppid);
    processes::add_names(json, call);
    json["thread"] = call.thread.empty() ? Json() : Json(call.thread);
    json["pod_uid"] = call.pod_uid;
    json["arguments"] = to_json(call.arguments);
    json["result"] = to_json(call.result);
    json["error"] = call.error ? Json(*call.error) : Json();
    json["stack"] = Json();
    if (call.stack != nullptr) {
        json["stack"] = Json::array();
        for (const symbols::Frame &frame : *call.stack) {
            json["stack"].push_back(frame_json(frame));
        }
    }
    return to_text(json);
}

std::string to_json(const FunctionCall &call, std::chrono::nanoseconds ended) {
    const func_call_record &record = *call.record;
    const FunctionInfo &function = **call.function;
    const bool is_entry = record.head.type == FUNC_RECORD_BEGIN;
    const bool has_ended = !is_entry && record.head.type != FUNC_RECORD_ENTRY;
    Json json = {{"event", is_entry ? "entry" : "call"},
                 {"id", id_of(record.tid, began_ns(record))},
                 {"time", utc_time(ended)},
                 {"function", function.name},
                 {"library", function.library},
                 {"duration_seconds", has_ended ? Json(in_seconds(record.duration_ns)) : Json()},
                 {"pid", record.head.tgid},
                 {"tid", record.tid},
                 {"ppid", to_json_or_null(call.process->ppid)}};
    processes::add_names(json, *call.process);
    json["pod_uid"] = call.process->pod_uid;
    json["arguments"] = to_json(arguments_of(call));
    json["result"] = to_json(shown_result(call));
    json["error"] = call.error != nullptr ? Json(*call.error) : Json();
    json["slow"] = call.is_slow;
    return to_text(json);
}

namespace {

ApiResponse write_slow_calls(const std::vector<SlowCall> &all, const ListQuery &query) {
    std::string text = "{";
    JsonList list(text, slow_calls_page_name, query.limit());
    for (const SlowCall &call : all) {
        if (query.wants("function", call.function->name) &&
            query.wants("library", call.function->library) && query.wants_process(call.pid, call)) {
            list.add([&] { return to_json(call); });
        }
    }
    const std::size_t left_out = list.end();
    return end_page(std::move(text), left_out);
}

}  // namespace

ApiPage slow_calls_page(std::vector<SlowCall> all) {
    return list_page(slow_calls_page_name, process_parameters({{"function"}, {"library"}}),
                     std::move(all), write_slow_calls);
}

}  // namespace gpusnoop::probes
