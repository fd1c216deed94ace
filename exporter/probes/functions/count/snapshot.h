// The functions probe's counts by function and process, besides the families, and never folded. A
// copy for other threads, and for a comparison with a later one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/report/rates.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

// The shortest and the longest call of the last whole minute.
// Minutes of the kernel's monotonic clock.
class MinuteExtremes {
public:
    struct Range {
        std::uint64_t min_ns;
        std::uint64_t max_ns;
        bool operator==(const Range &) const = default;
    };

    // Adds a call that ended at that time. Calls from before the last two minutes are ignored.
    void add(std::uint64_t ended_ns, std::uint64_t duration_ns) {
        const std::uint64_t minute = ended_ns / minute_ns;
        if (!now_ || minute > now_->number) {
            last_ = now_;
            now_ = Minute{minute, {duration_ns, duration_ns}};
            return;
        }
        if (minute == now_->number) {
            widen(now_->range, duration_ns);
        } else if (last_ && minute == last_->number) {
            widen(last_->range, duration_ns);
        } else if (minute + 1 == now_->number) {  // the first of its minute, but late
            last_ = Minute{minute, {duration_ns, duration_ns}};
        }
    }

    // The range of the minute before the one of `now`; nothing if no call ended in it.
    [[nodiscard]] std::optional<Range> before(std::chrono::nanoseconds now) const {
        const std::uint64_t wanted = static_cast<std::uint64_t>(now.count()) / minute_ns - 1;
        for (const auto &minute : {now_, last_}) {
            if (minute && minute->number == wanted) {
                return minute->range;
            }
        }
        return std::nullopt;
    }

    // Adds the calls of another.
    void merge(const MinuteExtremes &other) {
        for (const auto &minute : {other.last_, other.now_}) {
            if (minute) {
                add(minute->number * minute_ns, minute->range.min_ns);
                add(minute->number * minute_ns, minute->range.max_ns);
            }
        }
    }

private:
    static constexpr std::uint64_t minute_ns = 60'000'000'000;

    static void widen(Range &range, std::uint64_t duration_ns) {
        range.min_ns = std::min(range.min_ns, duration_ns);
        range.max_ns = std::max(range.max_ns, duration_ns);
    }

    struct Minute {
        std::uint64_t number;
        Range range;
    };
    std::optional<Minute> now_;
    std::optional<Minute> last_;
};

struct FunctionCount {
    std::shared_ptr<const FunctionInfo> function;
    FunctionTotals totals;
    MinuteExtremes minute;

    void add(const FunctionCount &other);
};

using processes::ProcessNames;

struct FunctionsSnapshot {
    // A running process that has made calls.
    struct Process {
        std::uint32_t pid = 0;
        ProcessNames names;
        std::vector<FunctionCount> functions;
    };

    std::chrono::nanoseconds taken{};  // on the kernel's monotonic clock
    std::vector<Process> processes;
    std::vector<FunctionCount> ended;  // of processes that have ended, together
};

// The counts that are shown as one function of one library.
struct FunctionRow {
    std::string library;
    std::string function;
    const FunctionsSnapshot::Process *process = nullptr;  // the snapshot's; null: of all
    // Is there anything to count? A function that is followed at its entry only lacks these.
    bool has_durations = false;
    bool has_errors = false;
    bool has_slow_calls = false;
    FunctionTotals totals;
    MinuteExtremes minute;
};

// By library and function. Includes ended processes, so that the numbers never decrease.
[[nodiscard]] std::vector<FunctionRow> rows_by_function(const FunctionsSnapshot &snapshot);
// The same for each running process.
[[nodiscard]] std::vector<FunctionRow> rows_by_process(const FunctionsSnapshot &snapshot);

// The calls of one number in a running process since the last time.
struct CallsOfFunction {
    ProcessKey process;
    std::uint32_t number = 0;
    std::uint64_t calls = 0;
};

// How long a function of a file was paused since the last time.
struct UnobservedFunction {
    std::string library;
    std::string name;
    std::chrono::nanoseconds time{};
};

}  // namespace gpusnoop::probes
