#include "exporter/probes/host_time/gaps/long_gaps.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "exporter/base/seconds.h"
#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/host_time/calls.h"
#include "exporter/symbols/names/syscall_names.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

Json or_null(std::string_view text) {
    return text.empty() ? Json() : Json(text);
}

Json longest_of(const host_gap_record &record) {
    if (record.longest.ns == 0) {
        return {};
    }
    return {{"seconds", in_seconds(record.longest.ns)},
            {"state", host_state_name(record.longest.state)},
            {"call", or_null(longest_call_of(record))},
            {"filesystem", or_null(longest_filesystem_of(record))}};
}

Json to_json(const LongGap &gap, Json json = Json::object()) {
    const host_gap_record &record = gap.record;
    json["began"] = utc_time(gap.began);
    json["seconds"] = in_seconds(record.ns);
    json["pid"] = record.process.tgid;
    json["tid"] = record.tid;
    processes::add_names(json, gap.process);
    json["thread"] = thread_name_of(record);
    json["gpu"] = or_null(gap.gpu);
    json["drain"] = host_drain_name(record.drain);
    json["before"] = or_null(gap.before);
    json["after"] = or_null(gap.after);
    json["states"] = Json::object();
    for (const auto &[state, ns] : states_of(record)) {
        json["states"][std::string(state)] = in_seconds(ns);
    }
    json["longest"] = longest_of(record);
    return json;
}

ApiResponse write_gaps(const std::vector<LongGap> &all, const ListQuery &query) {
    std::string text = "{";
    JsonList list(text, gaps_page_name, query.limit());
    for (const LongGap &gap : all) {
        if (gap.record.ns >= query.duration_ns("min") &&
            query.wants_process(gap.record.process.tgid, gap.process)) {
            list.add([&] { return to_json(gap); });
        }
    }
    const std::size_t left_out = list.end();
    return end_page(std::move(text), left_out);
}

}  // namespace

std::vector<std::pair<std::string_view, std::uint64_t>> states_of(const host_gap_record &record) {
    std::vector<std::pair<std::string_view, std::uint64_t>> states;
    for (std::uint32_t state = 0; state < HOST_GAP_STATES; state++) {
        if (record.state_ns[state] > 0) {
            states.emplace_back(host_gap_state_name(state), record.state_ns[state]);
        }
    }
    std::ranges::stable_sort(states, std::ranges::greater{}, [](auto &one) { return one.second; });
    return states;
}

std::string_view longest_call_of(const host_gap_record &record) {
    const host_block &longest = record.longest;
    return longest.ns == 0 || longest.call == HOST_NO_CALL
               ? std::string_view()
               : syscall_name(longest.call).value_or(std::string_view());
}

std::string_view longest_filesystem_of(const host_gap_record &record) {
    const host_block &longest = record.longest;
    return longest.ns == 0 || longest.state != HOST_STATE_file
               ? std::string_view()
               : filesystem_name(longest.filesystem);
}

std::string thread_name_of(const host_gap_record &record) {
    return to_valid_utf8({record.comm, ::strnlen(record.comm, sizeof(record.comm))},
                         max_label_bytes);
}

std::string event_line(const LongGap &gap) {
    return to_text(to_json(gap, {{"event", "launch_gap"}}));
}

void LongGapHistory::add(LongGap gap) {
    const std::uint64_t length = gap.record.ns;
    if (gaps_.size() == keep_) {
        if (keep_ == 0 || gaps_.begin()->first >= length) {
            return;
        }
        gaps_.erase(gaps_.begin());
    }
    gaps_.emplace(length, std::move(gap));
}

void LongGapHistory::forget_old(nanoseconds now) {
    constexpr std::chrono::hours age{1};
    std::erase_if(gaps_, [&](const auto &entry) { return entry.second.began < now - age; });
}

std::vector<LongGap> LongGapHistory::list() const {
    std::vector<LongGap> all;
    all.reserve(gaps_.size());
    for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
        all.push_back(gap->second);
    }
    return all;
}

ApiPage gaps_page(std::vector<LongGap> all) {
    return list_page(gaps_page_name, process_parameters({{"min", PageParameter::Type::duration}}),
                     std::move(all), write_gaps);
}

}  // namespace gpusnoop::probes
