// The regular report in the log: the functions with the most calls, and with the longest calls,
// since the last report.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/functions/count/snapshot.h"
#include "exporter/probes/functions/settings.h"

namespace gpusnoop::probes {

class LogReport {
public:
    struct Row {
        std::string library;
        std::string function;
        std::uint64_t calls = 0;
        bool has_errors = false;
        bool has_slow_calls = false;
        std::uint64_t slow_calls = 0;
        FunctionRates rates;
    };
    struct Rows {
        double seconds = 0;     // since the report before
        std::size_t functions;  // that were called
        std::uint64_t calls = 0;
        std::vector<Row> busiest;  // the most calls first
        std::vector<Row> slowest;  // the longest mean first; if the ends of calls are seen
    };

    // Nothing has been called yet at `now`, on the kernel's monotonic clock.
    LogReport(const FunctionsConfig::Report &settings, std::chrono::nanoseconds now)
        : settings_(settings), last_(now) {}

    // Is a report due? Never with an interval of 0.
    [[nodiscard]] bool is_due(std::chrono::nanoseconds now) const {
        return settings_.interval.count() > 0 && now - last_ >= settings_.interval;
    }
    // The report since the last one; nothing if no function was called. The next one begins here.
    std::optional<Rows> make(const FunctionsSnapshot &snapshot);

private:
    FunctionsConfig::Report settings_;
    std::chrono::nanoseconds last_;
    std::map<std::pair<std::string, std::string>, FunctionTotals>
        before_;  // by library and function
};

// One record for the whole, and one for each row.
void write_to_log(const LogReport::Rows &report);

}  // namespace gpusnoop::probes
