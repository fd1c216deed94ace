// The last reports, and who is told of them.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "exporter/base/rate_limit.h"
#include "exporter/probes/host_life/reports/report.h"
#include "exporter/sinks/sinks.h"

namespace gpusnoop::probes {

// For the aggregating thread.
class JobReportHistory {
public:
    // Keeps so many of processes, and as many of containers and Slurm steps: short processes can be
    // many.
    explicit JobReportHistory(std::size_t keep) : keep_(keep) {}

    void add(const JobReport &report);
    // The newest first.
    [[nodiscard]] std::vector<JobReport> list() const;

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
