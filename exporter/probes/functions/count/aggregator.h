// Records of the functions probe -> counters and histograms. No BPF here: records in, families out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tsl/robin_map.h>

#include "bpf/functions/functions.h"
#include "exporter/probes/frame/bpf/overhead.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/frame/processes/user_room.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/count/families.h"
#include "exporter/probes/functions/count/nccl.h"
#include "exporter/probes/functions/count/snapshot.h"
#include "exporter/probes/functions/report/slow_calls.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

// For kinds of errors and operations of NCCL, of all processes together.
inline constexpr UserRoom::Limits room_for_kinds{.bytes = std::size_t{64} << 20,
                                                 .bytes_of_user = std::size_t{32} << 20};

struct FunctionsSettings {
    series::Budget budget;
    bool pid_label = false;
    std::chrono::nanoseconds retention{};
    // Callbacks for single calls, if wanted: for slow calls, and for each call.
    OnFuncCall on_slow_call{};
    OnFuncCall on_call{};
    OnFuncCall on_entry{};  // when a call begins whose end will be seen
    // From the kernel's monotonic clock to CLOCK_REALTIME; without it there are no exemplars.
    std::function<std::chrono::nanoseconds(std::chrono::nanoseconds)> to_realtime{};
    bool script_label = true;
    std::string boot_id{};  // of this node
    CostOf cost_of = [](const auto &) { return 0; };
    OverheadLimitsPtr overhead{};
    // A process has ended that had made slow calls.
    std::function<void(const ProcessKey &, std::uint64_t slow_calls)> on_end = [](const auto &,
                                                                                  std::uint64_t) {};
    // Pauses since the last time.
    std::function<std::vector<UnobservedFunction>()> take_unobserved = [] {
        return std::vector<UnobservedFunction>();
    };
    std::shared_ptr<UserRoom> room = std::make_shared<UserRoom>(room_for_kinds);
};

// All times are of the kernel's monotonic clock.
class FunctionsAggregator {
public:
    // `table` must outlive it. `look_up` is for the process of a record; see
    // frame/processes/process_identity.h.
    FunctionsAggregator(FunctionsSettings settings, const FunctionIds &table,
                        std::function<bool(ProcessIdentity &)> look_up);

    void on_record(std::span<const std::byte> bytes);

    // The table has been changed, and all records from before have been counted. `replaced`: the
    // functions that calls no longer count as.
    void refresh(const std::vector<FunctionInfoPtr> &replaced, std::chrono::nanoseconds now);
    // Forgets ended processes and their series. For once a second.
    void tidy(std::chrono::nanoseconds now);
    [[nodiscard]] ProcessTableBase &processes() { return processes_; }

    [[nodiscard]] std::vector<series::FamilySnapshot> report(std::chrono::nanoseconds now);
    // The counts that are never folded or forgotten: each function, by process.
    [[nodiscard]] FunctionsSnapshot snapshot(std::chrono::nanoseconds now) const;
    // Counted since the last time, of running processes.
    [[nodiscard]] std::vector<CallsOfFunction> take_calls();
    // A call in flight; nothing for a function that calls no longer count as.
    [[nodiscard]] std::optional<OpenCall> open_call(const open_call_record &record);
    // The calls that threads were inside of when they ended, since the last time.
    [[nodiscard]] std::vector<UnreturnedCall> take_unreturned() {
        return std::exchange(unreturned_, {});
    }
    // Label sets folded so far, by family.
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const;
    // Records of an unknown type or of the wrong size.
    [[nodiscard]] std::uint64_t undecodable() const { return undecodable_; }

private:
    // The shared state of the numbers that are shown as one function, in one group of processes.
    struct Shown {
        MinuteExtremes extremes;
        series::Family *durations = nullptr;  // with the buckets of the first of them
    };
    using ShownKey = std::pair<series::Owner, series::LabelValues>;
    // A function in one process, with its counts.
    struct Counted {
        FunctionInfoPtr function;
        FunctionTotals totals;
        std::uint64_t taken = 0;  // of the calls, by take_calls()
        MinuteExtremes minute;
        series::Slot calls{};
        std::optional<series::Slot> slow_calls;  // where there is a threshold
        std::optional<series::Slot> duration;    // if the ends of calls are seen
        // The last slow call, until it becomes an exemplar: its end (CLOCK_REALTIME, 0: no call),
        // and its duration. Threads that end at the same time have their records in any order, and
        // two rings have them.
        std::chrono::nanoseconds slow_at{0};
        std::uint64_t slow_ns = 0;
        void note_slow(std::chrono::nanoseconds ended, std::uint64_t duration_ns) {
            if (ended >= slow_at) {
                slow_at = ended;
                slow_ns = duration_ns;
            }
        }
        Shown *shown = nullptr;
        std::map<std::string, series::Slot> errors;  // by code
        // Number and bytes.
        std::map<NcclOperation, std::pair<series::Slot, series::Slot>> nccl;
    };
    // The labels of a function.
    using ShownAs = std::pair<std::string, std::string>;  // library and name
    using Totals = std::map<ShownAs, FunctionCount>;
    struct InUse {
        bool slow_calls = false;
        bool errors = false;
        std::set<std::vector<std::uint64_t>> bounds;  // empty: no durations
    };
    // Of what has series that stay for the retention: since when.
    struct Retained {
        std::map<ShownAs, std::chrono::nanoseconds> removed;  // from the configuration
        // Those with unobserved time: when they had some, or were in use, last.
        std::map<ShownAs, std::chrono::nanoseconds> unobserved;
        std::map<NcclHash, std::chrono::nanoseconds> communicators;  // ended in a process
    };
    struct Process : KnownProcess {
        tsl::robin_map<std::uint32_t, Counted> functions;  // by number
        NcclCommunicators communicators;
        UserShare room;
        Totals former;  // of numbers that had another function before
        // Calls by number, besides those in `functions`, since take_calls().
        std::map<std::uint32_t, std::uint64_t> not_taken;
    };

    void on_end(std::span<const std::byte> bytes);
    void on_begin(const func_arguments_record &record);
    void on_unreturned(const func_unreturned_record &record);
    void on_words(const func_words_record &record);
    std::optional<OpenCall> describe(Process &process, const struct open_call &call) const;
    // The longer records have more data.
    void on_call(const func_call_record &record, const func_arguments_record *arguments = nullptr,
                 const func_slow_record *slow = nullptr);
    Counted *counted(Process &process, std::uint32_t number);
    void reject(std::uint32_t number);
    Counted count(Process &process, FunctionInfoPtr function);
    // Was the call slow? And its error.
    std::pair<bool, std::optional<std::string>> count_end(Process &process, Counted &counted,
                                                          const func_call_record &record);
    void keep_exemplars(Process &process);
    // For one more kind of that size.
    [[nodiscard]] bool find_room(Process &process, std::size_t bytes) const;
    void count_error(Process &process, Counted &counted, const std::string &code);
    void count_unobserved(std::chrono::nanoseconds now);
    void forget_unobserved(std::chrono::nanoseconds now);
    void count_nccl(Process &process, Counted &counted, const func_arguments_record &arguments);
    void show_nccl(series::FamilySet &set) const;
    void forget_communicators(std::chrono::nanoseconds now);
    series::Family &durations(const FunctionOptions &options);
    void forget_slots(bool all);
    void forget_removed(std::chrono::nanoseconds now);
    [[nodiscard]] std::map<ShownAs, InUse> in_use() const;
    [[nodiscard]] ShownAs shown_as(const series::LabelValues &values) const;
    static void keep(const FunctionCount &count, Totals &totals);
    static void keep_totals(const Process &process, Totals &totals);
    [[nodiscard]] series::LabelValues labels(const Process &process,
                                             const FunctionInfo &function) const;

    FunctionsSettings settings_;
    const FunctionIds *table_;
    series::FamilySet family_set_;
    FunctionFamilies families_;
    Overhead overhead_{families_.overhead, "functions", settings_.overhead};
    std::map<std::vector<std::uint64_t>, series::Family *> durations_;  // by their bounds
    std::map<ShownKey, Shown> shown_;
    series::PageFamilies page_families_;
    Retained retained_;
    Totals ended_;  // of processes that have ended
    NcclSplits splits_;
    ProcessTable<Process> processes_;
    std::vector<UnreturnedCall> unreturned_;
    std::uint64_t undecodable_ = 0;
};

}  // namespace gpusnoop::probes
