#include "exporter/probes/functions/report/functions_api.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "exporter/base/seconds.h"
#include "exporter/base/version.h"
#include "exporter/processes/process_names.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

// What the page is made of.
struct FunctionsState {
    FunctionsSnapshot snapshot;
    FunctionsMoment since;
    FunctionsMoment now;
};

std::uint64_t key_of(const FunctionRow &row, std::string_view order, nanoseconds now) {
    if (order == "seconds") {
        return row.totals.duration_ns;
    }
    if (order == "slow") {
        return row.totals.slow_calls;
    }
    if (order == "errors") {
        return row.totals.errors;
    }
    if (order == "max") {
        const auto range = row.minute.before(now);
        return range ? range->max_ns : 0;
    }
    return row.totals.calls;
}

bool is_wanted(const FunctionRow &row, const ListQuery &query) {
    return query.wants("function", row.function) && query.wants("library", row.library) &&
           (row.process == nullptr || query.wants_process(row.process->pid, row.process->names));
}

// The selected rows, in the selected order.
std::vector<FunctionRow> select(const FunctionsSnapshot &snapshot, const ListQuery &query) {
    auto rows =
        query.choice("by") == "process" ? rows_by_process(snapshot) : rows_by_function(snapshot);
    std::erase_if(rows, [&](const FunctionRow &row) { return !is_wanted(row, query); });
    const std::string_view order = query.choice("sort");
    const auto rank = [&](const FunctionRow &row) {
        return std::tuple(~key_of(row, order, snapshot.taken), std::string_view(row.library),
                          std::string_view(row.function), row.process ? row.process->pid : 0);
    };
    std::ranges::sort(
        rows, [&](const FunctionRow &a, const FunctionRow &b) { return rank(a) < rank(b); });
    return rows;
}

Json buckets_json(const CallHistogram &durations) {
    Json buckets = Json::array();
    for (std::size_t i = durations.first(); i < durations.end(); i++) {
        if (const std::uint64_t count = durations.count(i)) {
            buckets.push_back({i, count});
        }
    }
    return buckets;
}

Json row_json(const FunctionRow &row, nanoseconds now) {
    Json json = {{"library", row.library}, {"function", row.function}};
    if (row.process != nullptr) {
        json["pid"] = row.process->pid;
        processes::add_names(json, row.process->names);
    }
    // An unknown value is null.
    const auto known = [](bool is_known, auto value) { return is_known ? Json(value) : Json(); };
    const FunctionTotals &totals = row.totals;
    const auto minute = row.minute.before(now);
    json["calls"] = totals.calls;
    json["errors"] = known(row.has_errors, totals.errors);
    json["slow_calls"] = known(row.has_slow_calls, totals.slow_calls);
    json["seconds"] = known(row.has_durations, in_seconds(totals.duration_ns));
    json["min_seconds"] = minute ? Json(in_seconds(minute->min_ns)) : Json();
    json["max_seconds"] = minute ? Json(in_seconds(minute->max_ns)) : Json();
    json["longest_seconds"] = known(totals.durations.total() > 0, in_seconds(totals.longest_ns));
    json["buckets"] = buckets_json(totals.durations);
    return json;
}

Json head_json(const FunctionsSnapshot &snapshot, const FunctionsMoment &since,
               const FunctionsMoment &now) {
    return {{"version", version()},
            {"time_seconds", in_seconds(now.real)},
            {"since_seconds", in_seconds(since.real)},
            {"elapsed_seconds", in_seconds(now.monotonic - since.monotonic)},
            {"processes", snapshot.processes.size()},
            {"bucket_bounds_seconds", call_bounds_in_seconds()}};
}

Result<ApiResponse> write_functions(const FunctionsState &state, const ListQuery &query) {
    if (query.choice("by") != "process" && query.has_process()) {
        return fail(
            "pid, comm and script need by=process: without it, a function's numbers are "
            "those of all processes");
    }
    std::string text = to_text(head_json(state.snapshot, state.since, state.now));
    text.back() = ',';
    JsonList list(text, functions_page_name, query.limit());
    for (const FunctionRow &row : select(state.snapshot, query)) {
        list.add([&] { return row_json(row, state.snapshot.taken); });
    }
    const std::size_t left_out = list.end();
    return end_page(std::move(text), left_out);
}

}  // namespace

FunctionsMoment FunctionsMoment::now() {
    return {now_on(CLOCK_REALTIME), now_on(CLOCK_MONOTONIC)};
}

ApiPage functions_page(FunctionsSnapshot snapshot, const FunctionsMoment &since,
                       const FunctionsMoment &now) {
    return list_page(
        functions_page_name,
        process_parameters(
            {{"sort", PageParameter::Type::choice, {"calls", "seconds", "slow", "errors", "max"}},
             {"by", PageParameter::Type::choice, {"function", "process"}},
             {"function"},
             {"library"}}),
        FunctionsState{std::move(snapshot), since, now}, write_functions);
}

}  // namespace gpusnoop::probes
