// What all probes on functions together may show as their cost to a process: no more than its
// threads have run. The page adds up the probes, so a limit for each would not do.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::probes {

// One process, over all programs that it becomes.
struct OverheadShare {
    std::uint64_t shown_ns = 0;  // by all probes
    std::uint64_t run_ns = 0;    // the most that its threads are known to have run
    bool is_limited = false;     // run_ns is known

    void has_run(std::chrono::nanoseconds time);
    // How much of `more_ns` may be shown; then it counts as shown.
    [[nodiscard]] std::uint64_t take(std::uint64_t more_ns);
};
using OverheadSharePtr = std::shared_ptr<OverheadShare>;

// For the aggregating thread.
class OverheadLimits {
public:
    // What all threads of a process have run; nothing: it is gone.
    using RunTimeOf = std::function<std::optional<std::chrono::nanoseconds>(std::uint32_t tgid)>;

    explicit OverheadLimits(RunTimeOf run_time_of) : run_time_of_(std::move(run_time_of)) {}

    // The same for all probes, as long as one keeps it. `started` is 0 if it is not known: then the
    // share is the caller's alone.
    [[nodiscard]] OverheadSharePtr share_of(std::uint32_t tgid, std::chrono::nanoseconds started);

    [[nodiscard]] std::optional<std::chrono::nanoseconds> run_time_of(std::uint32_t tgid) const {
        return run_time_of_(tgid);
    }

private:
    static constexpr std::size_t most_forgotten = 1024;

    RunTimeOf run_time_of_;
    std::map<std::pair<std::uint32_t, std::chrono::nanoseconds>, std::weak_ptr<OverheadShare>>
        shares_;
    std::size_t tidy_at_ = most_forgotten;
};
using OverheadLimitsPtr = std::shared_ptr<OverheadLimits>;

// What the probes may cost a process: `cuda: {max_overhead: 3%}`.
// The block `cuda:` has it. All probes that can observe a process less keep it.
struct MaxOverhead {
    std::uint32_t percent = 3;  // of one CPU; 0: no limit
    bool operator==(const MaxOverhead &) const = default;

    // The counted cost is a lower bound: PyTorch on a GPU lost twice of it and more
    // (docs/performance.md).
    static constexpr std::int64_t true_cost = 2;
};

// What probes on functions that hold no limit by themselves cost a process, for the one that does.
// For any thread.
class CostTables {
public:
    // The table of processes of a probe's programs, whose values begin with a process_entry. Keeps
    // a descriptor of its own.
    Result<> add(int table);

    // What they have cost the process of this id. It falls when another process gets the id.
    [[nodiscard]] std::chrono::nanoseconds cost_of(std::uint32_t tgid) const;

private:
    struct Table {
        Fd map;
        std::size_t value_bytes;
    };

    mutable std::mutex mutex_;
    std::vector<Table> tables_;
};

using CostTablesPtr = std::shared_ptr<CostTables>;

}  // namespace gpusnoop::probes
