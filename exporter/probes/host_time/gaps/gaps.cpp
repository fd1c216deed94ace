#include "exporter/probes/host_time/gaps/gaps.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "exporter/base/seconds.h"
#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"
#include "exporter/probes/frame/processes/process_counts.h"
#include "exporter/probes/host_time/calls.h"
#include "exporter/symbols/names/syscall_names.h"

namespace gpusnoop::probes {

LaunchGaps::LaunchGaps(series::FamilySet &set)
    : seconds_(set.histogram(
          "host_launch_gap_seconds",
          "Time in which a process submitted no work to its GPU, from the end of its last "
          "submission or wait to the start of its next submission.",
          {{"gpu", true}}, HOST_SPAN_BOUNDS, 1e9)),
      by_drain_(set.histogram(
          "host_launch_gap_by_drain_seconds",
          "The same, by what the last call before the gap waited for (`drain`): after a wait for "
          "the device, the GPU had no work of the process during the whole gap.",
          {{"gpu", true}, {"drain", true}}, HOST_SPAN_BOUNDS, 1e9)),
      state_seconds_(set.counter("host_launch_gap_state_seconds_total",
                                 "Time in launch gaps of at least host.launch_gaps.min, by what "
                                 "the thread that launched next did or waited for.",
                                 {{"gpu", true}, {"drain", true}, {"state", true}}, 1e9)) {}

void LaunchGaps::count(const KnownProcess &process, Counted &counted,
                       const host_device_times &times) {
    for (std::uint32_t drain = 0; drain < HOST_DRAIN_COUNT; drain++) {
        count_gaps(process, counted, times, drain);
        count_states(process, counted, times, drain);
    }
}

void LaunchGaps::count_gaps(const KnownProcess &process, Counted &counted,
                            const host_device_times &times, std::uint32_t drain) {
    std::array<std::uint64_t, HOST_SPAN_BUCKETS + 1> added{};
    GapTimes::Sum &sum = counted.times_.by_drain[drain];
    std::uint64_t gaps = 0;
    for (std::size_t i = 0; i < HOST_SPAN_BUCKETS; i++) {
        added[i] = grown(times.gaps[drain][i], counted.gaps_[drain][i]);
        gaps += added[i];
    }
    sum.gaps += gaps;
    added[HOST_SPAN_BUCKETS] = grown(times.gap_ns[drain], sum.ns);
    if (gaps == 0 && added[HOST_SPAN_BUCKETS] == 0) {
        return;
    }
    auto &slot = counted.drain_slots_[drain];
    if (!slot) {
        auto values = process.labels;
        values.push_back(counted.gpu_);
        if (!counted.gap_slot_) {
            counted.gap_slot_ = seconds_.slot(process.owner, values);
        }
        values.emplace_back(host_drain_name(drain));
        slot = by_drain_.slot(process.owner, values);
    }
    seconds_.observe_all(*counted.gap_slot_, added);
    by_drain_.observe_all(*slot, added);
}

void LaunchGaps::count_states(const KnownProcess &process, Counted &counted,
                              const host_device_times &times, std::uint32_t drain) {
    for (std::uint32_t state = 0; state < HOST_GAP_STATES; state++) {
        const std::uint64_t added =
            grown(times.gap_state_ns[drain][state], counted.times_.by_drain[drain].state_ns[state]);
        if (added == 0) {
            continue;
        }
        auto &slot = counted.state_slots_[drain][state];
        if (!slot) {
            auto values = process.labels;
            values.push_back(counted.gpu_);
            values.emplace_back(host_drain_name(drain));
            values.emplace_back(host_gap_state_name(state));
            slot = state_seconds_.slot(process.owner, values);
        }
        state_seconds_.add(*slot, added);
    }
}

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
