// The processes that a probe of the kernel's side has traced: records in, identities and owners of
// series out.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpf/lib/traced.h"
#include "exporter/probes/process_groups.h"
#include "exporter/probes/process_identity.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

struct TracedProcess : ProcessIdentity {
    series::LabelValues labels;  // the process's, of all families
    series::Owner owner = 0;
    std::optional<std::chrono::nanoseconds> ended;
};

// All times are those of the kernel's monotonic clock.
class TracedProcesses {
public:
    // `look_up` is for the process of a record; see process_identity.h.
    TracedProcesses(bool pid_label, std::function<bool(ProcessIdentity &)> look_up)
        : pid_label_(pid_label), look_up_(std::move(look_up)) {}

    // Records of bpf/lib/traced.h. False: it is none, or not of its size.
    bool on_record(std::span<const std::byte> bytes);

    // Known from its record, or else from /proc.
    const TracedProcess &of(const ProcessKey &key);

    // Those that run, each with when it started.
    [[nodiscard]] std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> running() const;
    // For a process whose end was not recorded.
    void assume_ended(const ProcessKey &key, std::chrono::nanoseconds now);

    // Lets go of those that had ended by `now`, and returns them.
    std::vector<ProcessKey> take_ended(std::chrono::nanoseconds now);
    // The owners whose series are to be removed.
    std::vector<series::Owner> expire(std::chrono::nanoseconds now,
                                      std::chrono::nanoseconds retention) {
        return groups_.expire(now, retention);
    }
    [[nodiscard]] bool empty() const { return processes_.empty(); }

private:
    void came(const traced_came_record &record);
    void join(TracedProcess &process);

    bool pid_label_;
    std::function<bool(ProcessIdentity &)> look_up_;
    std::unordered_map<ProcessKey, std::unique_ptr<TracedProcess>, ProcessKeyHash> processes_;
    ProcessGroups groups_;
};

}  // namespace gpusnoop::probes
