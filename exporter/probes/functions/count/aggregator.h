// Records of the functions probe -> counters and histograms. No BPF here: records in, families out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tsl/robin_map.h>

#include "bpf/functions.h"
#include "exporter/probes/frame/process_identity.h"
#include "exporter/probes/frame/process_table.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/count/families.h"
#include "exporter/probes/functions/count/minute_range.h"
#include "exporter/probes/functions/count/snapshot.h"
#include "exporter/probes/functions/report/call.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

struct FunctionsSettings {
    series::Budget budget;
    bool pid_label = false;
    std::chrono::nanoseconds retention{};
    // Who wants to know of single calls, if anybody: of those that are slow, and of each.
    OnFuncCall on_slow_call{};
    OnFuncCall on_call{};
    OnFuncCall on_entry{};  // of each when it begins, whose end is seen later
    // From the kernel's monotonic clock to CLOCK_REALTIME; without it there are no exemplars.
    std::function<std::chrono::nanoseconds(std::chrono::nanoseconds)> to_realtime{};
};

// All times are those of the kernel's monotonic clock.
class FunctionsAggregator {
public:
    // `table` must outlive it. `look_up` is for the process of a record; see
    // frame/process_identity.h.
    FunctionsAggregator(FunctionsSettings settings, const FunctionIds &table,
                        std::function<bool(ProcessIdentity &)> look_up);

    void on_record(std::span<const std::byte> bytes);

    // The table has been changed, and all records from before have been counted. `replaced`: what
    // calls counted for until now, and do not in that way any more.
    void refresh(const std::vector<FunctionInfoPtr> &replaced, std::chrono::nanoseconds now);
    // Lets go of what ended. For once a second.
    void tidy(std::chrono::nanoseconds now);
    [[nodiscard]] ProcessTableBase &processes() { return processes_; }

    [[nodiscard]] std::vector<series::FamilySnapshot> report(std::chrono::nanoseconds now);
    // What no family folds or forgets: each function, by process.
    [[nodiscard]] FunctionsSnapshot snapshot(std::chrono::nanoseconds now) const;
    // Label sets folded so far, by family.
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const;
    // Records that were none of ours, or of the wrong size.
    [[nodiscard]] std::uint64_t undecodable() const { return undecodable_; }

private:
    // What numbers that are shown as one function have together, in one group of processes.
    struct Shown {
        MinuteExtremes extremes;
        series::Family *durations = nullptr;  // with the buckets of the first of them
    };
    using ShownKey = std::pair<series::Owner, series::LabelValues>;
    // A function as one process's calls of it are counted.
    struct Counted {
        FunctionInfoPtr function;
        FunctionTotals totals;
        MinuteExtremes minute;
        series::Slot calls{};
        std::optional<series::Slot> slow_calls;  // where there is a threshold
        std::optional<series::Slot> duration;    // of calls whose end is seen
        // The last slow call, until it is an exemplar: when it ended (CLOCK_REALTIME, 0 is none),
        // and how long it took.
        std::chrono::nanoseconds slow_at{0};
        std::uint64_t slow_ns = 0;
        Shown *shown = nullptr;
        std::map<std::string, series::Slot> errors;  // by code
        // Number and bytes.
        std::map<NcclOperation, std::pair<series::Slot, series::Slot>> nccl;
    };
    // What is shown of functions.
    using ShownAs = std::pair<std::string, std::string>;  // library and name
    using Totals = std::map<ShownAs, FunctionCount>;
    struct InUse {
        bool slow_calls = false;
        bool errors = false;
        std::set<std::vector<std::uint64_t>> bounds;  // empty: no durations
    };
    struct Process : KnownProcess {
        tsl::robin_map<std::uint32_t, Counted> functions;  // by number
        NcclCommunicators communicators;
        Totals former;  // of numbers that stood for something else before
    };

    void on_end(std::span<const std::byte> bytes);
    void on_begin(const func_arguments_record &record);
    // Of longer records also what they say besides.
    void on_call(const func_call_record &record, const func_arguments_record *arguments = nullptr,
                 const func_slow_record *slow = nullptr);
    Counted *counted(Process &process, std::uint32_t number);
    void reject(std::uint32_t number);
    Counted count(Process &process, FunctionInfoPtr function);
    // Whether the call was slow, and its error.
    std::pair<bool, std::optional<std::string>> count_end(Process &process, Counted &counted,
                                                          const func_call_record &record);
    void keep_exemplars(Process &process);
    void count_error(Process &process, Counted &counted, const std::string &code);
    void count_nccl(Process &process, Counted &counted, const func_arguments_record &arguments);
    series::Family &durations(const FunctionOptions &options);
    void forget_slots();
    void forget_removed(std::chrono::nanoseconds now);
    [[nodiscard]] std::map<ShownAs, InUse> in_use() const;
    [[nodiscard]] ShownAs shown_as(const series::LabelValues &values) const;
    static void keep_totals(const Process &process, Totals &totals);
    [[nodiscard]] series::LabelValues labels(const Process &process,
                                             const FunctionInfo &function) const;

    FunctionsSettings settings_;
    const FunctionIds *table_;
    series::FamilySet family_set_;
    FunctionFamilies families_;
    std::map<std::vector<std::uint64_t>, series::Family *> durations_;  // by their bounds
    std::map<ShownKey, Shown> shown_;
    std::map<std::string, std::uint64_t> folded_gauges_;
    // What was configured away, and when: series of it stay for a while, as those of processes do.
    std::map<ShownAs, std::chrono::nanoseconds> removed_;
    Totals ended_;  // of processes that have ended

    ProcessTable<Process> processes_;
    std::uint64_t undecodable_ = 0;
};

}  // namespace gpusnoop::probes
