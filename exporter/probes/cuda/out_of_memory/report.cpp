#include "exporter/probes/cuda/out_of_memory/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "exporter/base/log.h"
#include "exporter/base/text/quantity_text.h"
#include "exporter/probes/cuda/memory/counters.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;

double seconds_of(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

template <typename T>
Json known_number(const std::optional<T> &value) {
    return value ? Json(*value) : Json();
}

Json holder_json(const MemoryHolder &holder) {
    Json json = Json::object();
    json["pid"] = holder.pid;
    processes::add_names(json, holder.names);
    json["pod_uid"] = holder.pod_uid;
    json["complete"] = holder.is_complete;
    json["bytes"] = holder.on_gpu();
    Json kinds = Json::object();
    for (std::size_t kind = 0; kind < holder.bytes.size(); kind++) {
        kinds[std::string(memory_kind_names.at(kind))] = holder.bytes.at(kind);
    }
    json["bytes_by_kind"] = std::move(kinds);
    json["growth_bytes"] = known_number(holder.growth);
    json["growth_seconds"] = holder.growth ? Json(seconds_of(holder.growth_over)) : Json();
    return json;
}

Json figures_json(const OutOfMemory &event) {
    if (!event.memory) {
        return {};
    }
    return {{"free_bytes", event.memory->free},
            {"total_bytes", event.memory->total},
            {"age_seconds", seconds_of(event.memory->age)},
            {"is_of_that_moment", event.memory->is_of_that_moment()}};
}

Json torch_json(const OutOfMemory &event) {
    if (!event.torch) {
        return {};
    }
    return {{"allocated_bytes", event.torch->allocated}, {"reserved_bytes", event.torch->reserved}};
}

void add_request(Json &json, const OutOfMemory &event) {
    json["gpu"] = event.gpu;
    json["verdict"] = to_string(event.verdict);
    json["summary"] = event.sentence;
    json["requested_bytes"] = known_number(event.requested);
    json["requested_is_lower_bound"] = event.may_be_piece && !event.torch;
    json["memory_kind"] = event.kind.empty() ? Json() : Json(event.kind);
    json["function"] = event.function.empty() ? Json() : Json(event.function);
    json["tid"] = event.tid == 0 ? Json() : Json(event.tid);
    json["site"] = event.site.empty() ? Json() : Json(event.site);
    Json frames = Json::array();
    for (const symbols::Frame &frame : event.frames) {
        frames.push_back(frame_json(frame));
    }
    json["frames"] = std::move(frames);
}

// `first`: members before all others.
Json to_json(const OutOfMemory &event, Json first = Json::object()) {
    Json json = std::move(first);
    json["time"] = utc_time(event.at);
    json["last_time"] = utc_time(event.last);
    json["count"] = event.count;
    add_request(json, event);
    json["process"] = holder_json(event.asker);
    Json sites = Json::array();
    for (const HeldAtSite &site : event.sites) {
        sites.push_back(
            {{"site", site.site.empty() ? "unknown" : site.site}, {"bytes", site.bytes}});
    }
    json["sites"] = std::move(sites);
    json["others_compared"] = event.compares;
    Json others = Json::array();
    for (const MemoryHolder &other : event.others) {
        others.push_back(holder_json(other));
    }
    json["others"] = std::move(others);
    json["others_left_out"] = event.others_left_out;
    json["others_bytes"] = event.others_bytes;
    json["memory"] = figures_json(event);
    json["torch"] = torch_json(event);
    json["not_accounted_for_bytes"] = known_number(event.not_accounted_for());
    return json;
}

ApiResponse write_out_of_memory(const std::vector<OutOfMemory> &all, const ListQuery &query) {
    std::string text = "{";
    JsonList list(text, out_of_memory_page_name, query.limit());
    for (const OutOfMemory &event : all) {
        if (query.wants("gpu", event.gpu) &&
            query.wants_process(event.asker.pid, event.asker.names)) {
            list.add([&] { return to_json(event); });
        }
    }
    const std::size_t left_out = list.end();
    return end_page(std::move(text), left_out);
}

}  // namespace

std::uint64_t OutOfMemoryHistory::add(OutOfMemory event) {
    if (events_.size() == max_kept_out_of_memory) {
        events_.pop_front();
    }
    events_.push_back(std::move(event));
    return count_++;
}

void OutOfMemoryHistory::add_to(std::uint64_t number, std::uint64_t count,
                                std::chrono::nanoseconds last) {
    const std::uint64_t first = count_ - events_.size();
    if (number >= first) {
        OutOfMemory &event = events_[number - first];
        event.count += count;
        event.last = last;
    }
}

std::vector<OutOfMemory> OutOfMemoryHistory::list() const {
    return {events_.rbegin(), events_.rend()};
}

OutOfMemoryOverview OutOfMemoryHistory::overview() const {
    OutOfMemoryOverview overview;
    overview.count = count_;
    const std::size_t shown = std::min(events_.size(), max_overview_out_of_memory);
    for (auto event = events_.rbegin(); overview.last.size() < shown; ++event) {
        overview.last.push_back({.at = event->at,
                                 .count = event->count,
                                 .pid = event->asker.pid,
                                 .names = event->asker.names,
                                 .gpu = event->gpu,
                                 .requested = event->requested,
                                 .verdict = std::string(to_string(event->verdict)),
                                 .sentence = event->sentence});
    }
    return overview;
}

std::string out_of_memory_line(const OutOfMemory &event) {
    return to_text(to_json(event, {{"event", "out_of_memory"}}));
}

ApiPage out_of_memory_page(std::vector<OutOfMemory> all) {
    return list_page(out_of_memory_page_name, process_parameters({{"gpu"}}), std::move(all),
                     write_out_of_memory);
}

void OutOfMemoryReporter::report(const OutOfMemory &event) {
    if (lines_.allow(now_on(CLOCK_MONOTONIC))) {
        log::warn("a program ran out of GPU memory", {{"pid", event.asker.pid},
                                                      {"comm", event.asker.names.comm},
                                                      {"gpu", event.gpu},
                                                      {"verdict", to_string(event.verdict)},
                                                      {"summary", event.sentence}});
    }
    if (sinks_ && sinks_->want(sinks::Events::out_of_memory)) {
        sinks_->send(sinks::Events::out_of_memory, out_of_memory_line(event));
    }
}

}  // namespace gpusnoop::probes
