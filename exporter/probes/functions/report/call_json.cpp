#include "exporter/probes/functions/report/call_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "exporter/base/seconds.h"
#include "exporter/base/text/text.h"
#include "exporter/base/text/utc_time.h"
#include "exporter/probes/frame/api/frame_json.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

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

}  // namespace gpusnoop::probes
