#include "exporter/probes/functions/report/functions_api.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "exporter/base/glob.h"
#include "exporter/base/seconds.h"
#include "exporter/base/text.h"
#include "exporter/base/version.h"
#include "exporter/probes/frame/frame_json.h"
#include "exporter/processes/process_names.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

// Room for the closing brackets.
constexpr std::size_t closing_bytes_of_functions = 1024;
// The limit of a pattern: no function's name is longer than max_function_name, and fnmatch can take
// long with a long pattern.
constexpr std::size_t max_glob_bytes = 256;
constexpr std::ptrdiff_t max_glob_stars = 8;

enum class Sort { calls, seconds, slow, errors, max };

struct FunctionsQuery {
    Sort sort = Sort::calls;
    std::uint32_t limit = std::numeric_limits<std::uint32_t>::max();
    std::optional<std::string> glob;
    bool by_process = false;
};

Result<Sort> read_sort(const std::string &value) {
    constexpr std::pair<std::string_view, Sort> sorts[] = {{"calls", Sort::calls},
                                                           {"seconds", Sort::seconds},
                                                           {"slow", Sort::slow},
                                                           {"errors", Sort::errors},
                                                           {"max", Sort::max}};
    for (const auto &[name, sort] : sorts) {
        if (name == value) {
            return sort;
        }
    }
    return fail("sort must be calls, seconds, slow, errors or max, not " + in_quotes(value));
}

Result<std::string> read_glob(const std::string &value) {
    if (value.empty() || value.size() > max_glob_bytes ||
        std::ranges::count(value, '*') > max_glob_stars ||
        find_invalid_utf8(value) != std::string::npos || value.find('\0') != std::string::npos) {
        return fail("function must be a name or a glob of 1 to " + std::to_string(max_glob_bytes) +
                    " bytes with at most " + std::to_string(max_glob_stars) + " *, not " +
                    in_quotes(value));
    }
    return value;
}

Result<FunctionsQuery> read_functions_query(const QueryParameters &parameters) {
    FunctionsQuery query;
    // Stores the parsed value, or its error.
    std::optional<Error> error;
    const auto take = [&error](auto read, auto &value) {
        if (read) {
            value = std::move(*read);
        } else {
            error = std::move(read.error());
        }
    };
    for (const auto &[name, value] : parameters) {
        if (name == "sort") {
            take(read_sort(value), query.sort);
        } else if (name == "limit") {
            take(read_parameter(name, value, 0), query.limit);
        } else if (name == "function") {
            take(read_glob(value), query.glob);
        } else if (name != "by") {
            return fail(in_quotes(name) +
                        " is not a parameter of this page; it has sort, limit, function and by");
        } else if (value != "function" && value != "process") {
            return fail("by must be function or process, not " + in_quotes(value));
        } else {
            query.by_process = value == "process";
        }
        if (error) {
            return tl::unexpected(*error);
        }
    }
    return query;
}

std::uint64_t key_of(const FunctionRow &row, Sort sort, nanoseconds now) {
    switch (sort) {
        case Sort::calls:
            return row.totals.calls;
        case Sort::seconds:
            return row.totals.duration_ns;
        case Sort::slow:
            return row.totals.slow_calls;
        case Sort::errors:
            return row.totals.errors;
        case Sort::max:
            break;
    }
    const auto range = row.minute.before(now);
    return range ? range->max_ns : 0;
}

// The selected rows, in the selected order.
std::vector<FunctionRow> select(const FunctionsSnapshot &snapshot, const FunctionsQuery &query) {
    auto rows = query.by_process ? rows_by_process(snapshot) : rows_by_function(snapshot);
    if (query.glob) {
        std::erase_if(
            rows, [&](const FunctionRow &row) { return !matches_glob(*query.glob, row.function); });
    }
    const auto rank = [&](const FunctionRow &row) {
        return std::tuple(~key_of(row, query.sort, snapshot.taken), std::string_view(row.library),
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

std::string functions_text(const FunctionsSnapshot &snapshot, const FunctionsQuery &query,
                           const FunctionsMoment &since, const FunctionsMoment &now) {
    const auto rows = select(snapshot, query);
    std::string text = to_text(head_json(snapshot, since, now));
    text.pop_back();
    text += R"(,"functions":[)";
    std::size_t written = 0;
    while (written < std::min<std::size_t>(query.limit, rows.size())) {
        const std::string row = to_text(row_json(rows[written], snapshot.taken));
        if (text.size() + row.size() + closing_bytes_of_functions > max_functions_bytes) {
            break;
        }
        text += (written++ == 0 ? "" : ",") + row;
    }
    const std::size_t left_out = rows.size() - written;
    return text + R"(],"functions_left_out":)" + std::to_string(left_out) + R"(,"truncated":)" +
           (left_out > 0 ? "true}\n" : "false}\n");
}

}  // namespace

FunctionsMoment FunctionsMoment::now() {
    return {now_on(CLOCK_REALTIME), now_on(CLOCK_MONOTONIC)};
}

ApiResource functions_document(FunctionsSnapshot snapshot, const FunctionsMoment &since,
                               const FunctionsMoment &now) {
    const auto shared = std::make_shared<const FunctionsSnapshot>(std::move(snapshot));
    return {std::string(functions_document_name),
            [shared, since, now](const QueryParameters &parameters) -> Result<ApiResponse> {
                const auto query = read_functions_query(parameters);
                if (!query) {
                    return tl::unexpected(query.error());
                }
                return ApiResponse{"application/json", functions_text(*shared, *query, since, now)};
            }};
}

}  // namespace gpusnoop::probes
