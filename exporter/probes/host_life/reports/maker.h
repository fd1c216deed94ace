// Makes the reports of what has ended, of what several probes know.
//
// The probe `cuda` hands over what it has counted of a process a second or so after its end. The
// other probes hand over their parts at about that time, so the report is made a little later.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bpf/host_life.h"
#include "bpf/lib/processes/followed.h"
#include "exporter/base/log.h"
#include "exporter/base/rate_limit.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/reports/report_facts.h"
#include "exporter/probes/host_life/reports/owners.h"
#include "exporter/probes/host_life/reports/report.h"
#include "exporter/sinks/sinks.h"

namespace gpusnoop::probes {

// For the aggregating thread.
class ReportMaker {
public:
    // The other probes have read everything of a process by then.
    static constexpr std::chrono::seconds default_delay{4};

    using OnReport = std::function<void(const JobReport &)>;
    struct Settings {
        std::chrono::nanoseconds delay = default_delay;
        JobOwners::Node node;
        JobOwners::Moment started;
        OnReport on_report;
    };
    ReportMaker(ReportFactsPtr facts, Settings settings);

    // A GPU process that is followed. Any number of times.
    void on_process(const ProcessIdentity &process, JobOwners::Moment now) {
        owners_.on_process(process, now);
    }
    // How a GPU process has ended, or that it has become another program.
    void on_exit(const life_exit_record &record);
    void on_exec(const follow_record &record);

    // For once a second, or more often.
    void make(JobOwners::Moment now);

    // The most ends of processes that wait for their parts, and ends that are kept for them.
    static constexpr std::size_t most_waiting = 4'096;
    static constexpr std::size_t most_ends = 16'384;

private:
    struct End {
        ProcessKey followed;
        std::chrono::nanoseconds at{};
        std::uint64_t cuda_since_ns = 0;  // 0: not known
        std::string cause;
        std::optional<std::chrono::nanoseconds> lifetime;
    };
    struct Waiting {
        GpuProcessTotals totals;
        std::chrono::nanoseconds since{};
    };

    void add_end(std::uint32_t pid, End end);
    [[nodiscard]] std::optional<End> take_end(const GpuProcessTotals &totals);
    [[nodiscard]] JobReport report_of(const GpuProcessTotals &totals, JobOwners::Moment now);
    void warn_of_left_out();

    ReportFactsPtr facts_;
    std::chrono::nanoseconds delay_;
    OnReport on_report_;
    JobOwners owners_;
    std::multimap<std::uint32_t, End> ends_;  // by process id
    std::deque<Waiting> waiting_;             // the oldest first
    std::uint64_t left_out_ = 0;              // of the owners, when it was logged last
    LineLimit lines_;
};

// The last reports, and who is told of them.
// For the aggregating thread.
class JobReportHistory {
public:
    // Keeps so many of processes, and as many of containers and Slurm steps: short processes can be
    // many.
    explicit JobReportHistory(std::size_t keep) : keep_(keep) {}

    void add(const JobReport &report);
    // The newest first.
    [[nodiscard]] std::vector<JobReport> list() const;
    // The newest of processes, and of containers and Slurm steps.
    [[nodiscard]] JobReportsOverview overview() const;

private:
    std::size_t keep_;
    std::deque<JobReport> of_processes_, of_owners_;  // the newest last
};

// Tells the log and the sinks of each report. Programs must not fill the log.
class JobReporter {
public:
    explicit JobReporter(sinks::SinksPtr sinks) : sinks_(std::move(sinks)) {}

    void report(const JobReport &report);

private:
    sinks::SinksPtr sinks_;  // null: there are none
    // Of processes, and of their owners.
    std::array<RateLimit, 2> lines_ = {RateLimit(10), RateLimit(10)};
};

}  // namespace gpusnoop::probes
