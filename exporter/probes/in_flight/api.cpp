#include "exporter/probes/in_flight/api.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/in_flight/calls.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

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
    json["site"] = thread == nullptr || thread->site.empty() ? Json() : Json(thread->site);
    if (thread != nullptr) {
        json["stack"] = Json::array();
        for (const symbols::Frame &frame : thread->stack) {
            json["stack"].push_back(frame_json(frame));
        }
        json["kernel_stack"] = thread->in_kernel;
    }
}

template <typename Call>
bool is_wanted(const Call &call, const ListQuery &query) {
    return query.wants("function", call.function) && query.wants("library", call.library) &&
           query.wants_process(call.pid, call);
}

// Stacks are read only of these.
std::vector<OpenCall> chosen(const OpenCalls &all, const ListQuery &query, std::size_t &left_out) {
    std::vector<OpenCall> chosen;
    for (const OpenCall &call : all.calls) {
        if (!is_wanted(call, query)) {
            continue;
        }
        if (chosen.size() == query.limit()) {
            left_out++;
        } else {
            chosen.push_back(call);
        }
    }
    for (const MoreCalls &more : all.more) {
        left_out += is_wanted(more, query) ? more.count : 0;
    }
    return chosen;
}

ApiResponse write_in_flight(const InFlightState &state, const ListQuery &query) {
    std::size_t left_out = 0;
    const std::vector<OpenCall> shown = chosen(state.open, query, left_out);
    const auto threads = state.stacks == nullptr ? std::map<std::uint32_t, BlockedThread>()
                                                 : state.stacks->of(threads_of(shown, state.open));
    const auto innermost = innermost_calls(shown);
    std::string text = R"({"min_age_seconds":)" +
                       Json(std::chrono::duration<double>(state.min_age).count()).dump() + ",";
    JsonList calls(text, in_flight_page_name);
    for (const OpenCall &call : shown) {
        calls.add([&] {
            Json json = to_json(call, state.to_realtime);
            json["age_seconds"] =
                seconds(call.began_ns, static_cast<std::uint64_t>(state.now.count()));
            const auto thread = threads.find(call.tid);
            const bool is_innermost = innermost.at(call.tid) == call.began_ns;
            add_thread(json, is_innermost && thread != threads.end() ? &thread->second : nullptr);
            return json;
        });
    }
    left_out += calls.end();
    text += ',';
    JsonList unreturned(text, "unreturned");
    for (const UnreturnedCall &call : state.unreturned) {
        if (is_wanted(call, query)) {
            unreturned.add([&] { return to_json(call, state.to_realtime); });
        }
    }
    left_out += unreturned.end();
    return end_page(std::move(text), left_out);
}

}  // namespace

ApiPage in_flight_page(InFlightState state) {
    return list_page(in_flight_page_name, process_parameters({{"function"}, {"library"}}),
                     std::move(state), write_in_flight);
}

}  // namespace gpusnoop::probes
