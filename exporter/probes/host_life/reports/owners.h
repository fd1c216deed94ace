// The containers and the steps of Slurm jobs whose processes have used GPUs, until their cgroups
// are removed: a container or a step can go on when a process of it ends.
//
// The kernel tells nobody that a cgroup is gone, so the directories are looked for: some in each
// second, all in turn. One that cannot be seen from here ends with its last GPU process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/reports/report_facts.h"
#include "exporter/probes/host_life/reports/report.h"

namespace gpusnoop::probes {

// For the aggregating thread.
class JobOwners {
public:
    // What the node says.
    struct Node {
        std::string cgroup_path;  // where the host's cgroups are mounted
        // /proc/PID/cgroup.
        std::function<std::string(std::uint32_t pid)> cgroups_of;
        // Whether the followed process runs, or has ended a moment ago.
        std::function<bool(const ProcessKey &)> knows;
    };
    // One moment on both clocks.
    struct Moment {
        std::chrono::nanoseconds monotonic{};
        std::chrono::nanoseconds realtime{};

        // The other time of a monotonic one.
        [[nodiscard]] std::chrono::nanoseconds real(std::chrono::nanoseconds other) const {
            return realtime - (monotonic - other);
        }
    };
    JobOwners(Node node, Moment started);

    // Any number of times while a GPU process runs: `process` is the followed one.
    void on_process(const ProcessIdentity &process, Moment now);
    // Its report, when it has ended.
    void on_end(const GpuProcessTotals &totals, const JobReport &report, Moment now);
    // The reports of those that have ended since the last time. For once a second.
    [[nodiscard]] std::vector<JobReport> take_ended(Moment now);

    // Grows when there is no room for an owner, which gets no report: a user, or the node, has too
    // many at once.
    [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

    static constexpr std::size_t most = 4'096;
    static constexpr std::size_t most_of_user = 256;
    // Directories that are looked for in a second: two microseconds each.
    static constexpr std::size_t looks = 512;
    // What is handed over of ended processes comes so late at most.
    static constexpr std::chrono::seconds patience{15};

private:
    // The directory and what the kernel had there; empty: it is not known.
    struct Directory {
        std::string path;
        std::uint64_t inode = 0;
    };
    struct Owner {
        JobReport report;  // the sums until now
        std::optional<std::uint32_t> user;
        Directory directory;
        std::chrono::nanoseconds looked{};       // for it; CLOCK_MONOTONIC
        std::chrono::nanoseconds began{};        // CLOCK_REALTIME
        std::chrono::nanoseconds first_call{};   // CLOCK_MONOTONIC, as the next ones
        std::chrono::nanoseconds last_ended{};   // of its processes
        std::chrono::nanoseconds last_change{};  // a process of it began, or was reported
        std::set<ProcessKey> running;            // GPU processes that are not reported
        // The memory until now: the part that counts from `since`, and that from before.
        std::chrono::nanoseconds since{};
        HeldByGpu held;
        std::map<std::string, double> byte_seconds_before;
        std::optional<std::chrono::nanoseconds> gone;  // when it was noticed
    };
    using Owners = std::map<JobOwner, Owner>;

    [[nodiscard]] Directory directory_of(std::uint32_t pid, const JobOwner &id) const;
    [[nodiscard]] static bool is_there(const Directory &directory);
    [[nodiscard]] static bool is_left_over(const Owner &owner, std::chrono::nanoseconds now);
    void find_directory(Owner &owner, const JobOwner &id, const ProcessIdentity &process,
                        std::chrono::nanoseconds now);
    // Null: there is no room.
    Owner *owner_of(const JobOwner &id, const ProcessIdentity &process, Moment now);
    Owner *owner_of_ended(const JobOwner &id, const GpuProcessTotals &totals, Moment now);
    Owner *add(const JobOwner &id, const ProcessIdentity &process, Moment now);
    void leave(Owners::iterator owner, std::chrono::nanoseconds now);
    void look(std::chrono::nanoseconds now);
    [[nodiscard]] bool is_over(Owner &owner, std::chrono::nanoseconds now) const;
    [[nodiscard]] static JobReport final_report(Owner &owner, Moment now);

    Node node_;
    Moment started_;
    std::vector<std::string> hierarchies_;
    Owners owners_;
    std::list<std::pair<JobOwner, Owner>> leaving_;  // whose cgroups are gone
    std::map<std::optional<std::uint32_t>, std::size_t> of_user_;
    std::optional<JobOwner> looked_for_;  // last
    std::uint64_t left_out_ = 0;
};

}  // namespace gpusnoop::probes
