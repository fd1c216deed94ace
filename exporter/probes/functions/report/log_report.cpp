#include "exporter/probes/functions/report/log_report.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "exporter/base/log.h"

namespace gpusnoop::probes {

namespace {

// Four digits are enough for people, and do not fill the line.
double rounded(double value) {
    if (value == 0 || !std::isfinite(value)) {
        return value;
    }
    // Divides by a whole power of ten, so that the result is a short decimal.
    const int places = 3 - static_cast<int>(std::floor(std::log10(std::abs(value))));
    const double factor = std::pow(10.0, std::abs(places));
    return places >= 0 ? std::round(value * factor) / factor : std::round(value / factor) * factor;
}

// The first `count` rows in this order.
template <typename Less>
std::vector<LogReport::Row> first(std::vector<LogReport::Row> rows, std::size_t count, Less less) {
    count = std::min(count, rows.size());
    std::ranges::partial_sort(rows, rows.begin() + static_cast<std::ptrdiff_t>(count), less);
    rows.resize(count);
    return rows;
}

void write_row(std::string_view message, const LogReport::Row &row) {
    std::vector<log::Field> fields = {{"library", row.library},
                                      {"function", row.function},
                                      {"calls", row.calls},
                                      {"calls_per_second", rounded(row.rates.calls)}};
    if (row.has_errors) {
        fields.emplace_back("errors_per_second", rounded(row.rates.errors));
    }
    if (row.has_slow_calls) {
        fields.emplace_back("slow_calls", row.slow_calls);
    }
    const auto add = [&](std::string_view key, const std::optional<double> &seconds) {
        if (seconds) {
            fields.emplace_back(key, rounded(*seconds));
        }
    };
    add("mean_seconds", row.rates.mean);
    add("p50_seconds", row.rates.p50);
    add("p99_seconds", row.rates.p99);
    add("max_seconds", row.rates.max);
    log::write(log::Level::info, message, fields);
}

}  // namespace

std::optional<LogReport::Rows> LogReport::make(const FunctionsSnapshot &snapshot) {
    Rows report{.seconds = std::chrono::duration<double>(snapshot.taken - last_).count(),
                .functions = 0,
                .busiest = {},
                .slowest = {}};
    last_ = snapshot.taken;
    std::vector<Row> rows;
    for (const FunctionRow &row : rows_by_function(snapshot)) {
        FunctionTotals &before = before_[{row.library, row.function}];
        const auto done = grown_since(row.totals, before);
        before = row.totals;
        if (!done || done->calls == 0) {
            continue;
        }
        report.calls += done->calls;
        rows.push_back({row.library, row.function, done->calls, row.has_errors, row.has_slow_calls,
                        done->slow_calls,
                        rates_of(*done, call_bounds_in_seconds(), report.seconds)});
    }
    if (rows.empty()) {
        return std::nullopt;
    }
    report.functions = rows.size();
    report.busiest =
        first(rows, settings_.rows, [](const Row &a, const Row &b) { return a.calls > b.calls; });
    std::erase_if(rows, [](const Row &row) { return !row.rates.mean; });
    report.slowest = first(std::move(rows), settings_.rows, [](const Row &a, const Row &b) {
        return *a.rates.mean > *b.rates.mean;
    });
    return report;
}

void write_to_log(const LogReport::Rows &report) {
    log::info("functions since the last report", {{"probe", "functions"},
                                                  {"seconds", rounded(report.seconds)},
                                                  {"functions", report.functions},
                                                  {"calls", report.calls}});
    for (const LogReport::Row &row : report.busiest) {
        write_row("busiest function", row);
    }
    for (const LogReport::Row &row : report.slowest) {
        write_row("slowest function", row);
    }
}

}  // namespace gpusnoop::probes
