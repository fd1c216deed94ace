#include "exporter/probes/in_flight/api.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "exporter/base/text.h"
#include "exporter/base/utc_time.h"
#include "exporter/probes/frame/calls_query.h"
#include "exporter/probes/frame/frame_json.h"
#include "exporter/probes/in_flight/calls.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

// Room for the closing brackets.
constexpr std::size_t closing_bytes_of_open_calls = 256;

double seconds(std::uint64_t from_ns, std::uint64_t to_ns) {
    return to_ns < from_ns ? 0 : static_cast<double>(to_ns - from_ns) / 1e9;
}

nanoseconds time_of(std::uint64_t ns) {
    return nanoseconds(static_cast<std::int64_t>(ns));
}

Json to_json(const std::optional<std::uint32_t> &value) {
    return value ? Json(*value) : Json();
}

Json to_json(const std::optional<NcclPlace> &place) {
    return place ? Json{{"communicator", place->communicator},
                        {"hash", place->hash.empty() ? Json() : Json(place->hash)},
                        {"rank", to_json(place->rank)},
                        {"nranks", to_json(place->nranks)},
                        {"sequence", place->sequence}}
                 : Json();
}

// The id is as in /api/v1/slow_calls.
Json to_json(const OpenCall &call, nanoseconds to_realtime) {
    Json json = {{"id", std::to_string(call.tid) + "-" + std::to_string(call.began_ns)},
                 {"began", utc_time(time_of(call.began_ns) + to_realtime)},
                 {"function", call.function},
                 {"library", call.library},
                 {"pid", call.pid},
                 {"tid", call.tid}};
    processes::add_names(json, call);
    json["thread"] = call.thread;
    json["pod_uid"] = call.pod_uid;
    json["arguments"] = Json::object();
    for (const auto &[position, value] : call.arguments) {
        json["arguments"][std::to_string(position)] = hexadecimal_literal(value);
    }
    json["gpu"] = call.gpu.empty() ? Json() : Json(call.gpu);
    json["nccl"] = to_json(call.nccl);
    return json;
}

Json to_json(const UnreturnedCall &call, nanoseconds to_realtime) {
    Json json = to_json(static_cast<const OpenCall &>(call), to_realtime);
    json["ended"] = utc_time(time_of(call.ended_ns) + to_realtime);
    json["age_seconds"] = seconds(call.began_ns, call.ended_ns);
    const char *const name =
        call.signal == 0 ? nullptr : ::sigabbrev_np(static_cast<int>(call.signal));
    json["signal"] = name == nullptr
                         ? (call.signal == 0 ? Json() : Json(std::to_string(call.signal)))
                         : Json("SIG" + std::string(name));
    return json;
}

void add_thread(Json &json, const BlockedThread *thread) {
    json["state"] = thread == nullptr ? Json() : Json(thread->state);
    json["stack"] = Json();
    json["kernel_stack"] = Json();
    if (thread != nullptr) {
        json["stack"] = Json::array();
        for (const symbols::Frame &frame : thread->stack) {
            json["stack"].push_back(frame_json(frame));
        }
        json["kernel_stack"] = thread->in_kernel;
    }
}

std::vector<OpenCall> chosen(const OpenCalls &all, const CallsQuery &query,
                             std::uint64_t &left_out) {
    std::vector<OpenCall> chosen;
    for (const OpenCall &call : all.calls) {
        if (!query.asks_for(call.function, call.library, call.comm, call.pid)) {
            continue;
        }
        if (chosen.size() == query.limit) {
            left_out++;
        } else {
            chosen.push_back(call);
        }
    }
    for (const MoreCalls &more : all.more) {
        left_out +=
            query.asks_for(more.function, more.library, more.comm, more.pid) ? more.count : 0;
    }
    return chosen;
}

std::string open_calls_text(const InFlightState &state, const CallsQuery &query) {
    std::uint64_t left_out = 0;
    const std::vector<OpenCall> shown = chosen(state.open, query, left_out);
    const auto threads = state.stacks == nullptr ? std::map<std::uint32_t, BlockedThread>()
                                                 : state.stacks->of(threads_of(shown, state.open));
    const auto innermost = innermost_calls(shown);
    std::string text = R"({"min_age_seconds":)" +
                       Json(std::chrono::duration<double>(state.min_age).count()).dump() +
                       R"(,"in_flight":[)";
    const char *separator = "";
    const auto add = [&](const Json &json) {
        const std::string one = to_text(json);
        if (text.size() + one.size() + closing_bytes_of_open_calls > max_in_flight_bytes) {
            return false;
        }
        text += std::exchange(separator, ",") + one;
        return true;
    };
    for (const OpenCall &call : shown) {
        Json json = to_json(call, state.to_realtime);
        json["age_seconds"] = seconds(call.began_ns, static_cast<std::uint64_t>(state.now.count()));
        const auto thread = threads.find(call.tid);
        const bool is_innermost = innermost.at(call.tid) == call.began_ns;
        add_thread(json, is_innermost && thread != threads.end() ? &thread->second : nullptr);
        left_out += add(json) ? 0 : 1;
    }
    text += R"(],"unreturned":[)";
    separator = "";
    for (const UnreturnedCall &call : state.unreturned) {
        if (query.asks_for(call.function, call.library, call.comm, call.pid)) {
            left_out += add(to_json(call, state.to_realtime)) ? 0 : 1;
        }
    }
    return text + R"(],"left_out":)" + std::to_string(left_out) + R"(,"truncated":)" +
           (left_out > 0 ? "true}\n" : "false}\n");
}

}  // namespace

ApiResource in_flight_document(InFlightState state) {
    const auto shared = std::make_shared<const InFlightState>(std::move(state));
    return {std::string(in_flight_document_name),
            [shared](const QueryParameters &parameters) -> Result<ApiResponse> {
                const auto query = read_calls_query(parameters);
                if (!query) {
                    return tl::unexpected(query.error());
                }
                return ApiResponse{"application/json", open_calls_text(*shared, *query)};
            }};
}

}  // namespace gpusnoop::probes
