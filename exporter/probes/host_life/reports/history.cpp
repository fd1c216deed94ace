#include "exporter/probes/host_life/reports/history.h"

#include <algorithm>
#include <functional>

#include "exporter/base/log.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

bool is_of_process(const JobReport &report) {
    return report.kind == JobReport::Kind::process;
}

}  // namespace

void JobReportHistory::add(const JobReport &report) {
    std::deque<JobReport> &kept = is_of_process(report) ? of_processes_ : of_owners_;
    kept.push_back(report);
    if (kept.size() > keep_) {
        kept.pop_front();
    }
}

std::vector<JobReport> JobReportHistory::list() const {
    std::vector<JobReport> all(of_processes_.rbegin(), of_processes_.rend());
    all.insert(all.end(), of_owners_.rbegin(), of_owners_.rend());
    std::ranges::stable_sort(all, std::greater(), &JobReport::ended);
    return all;
}

void JobReporter::report(const JobReport &report) {
    if (lines_.at(is_of_process(report) ? 0 : 1).allow(now_on(CLOCK_MONOTONIC))) {
        log::info("a job has ended", {{"kind", to_string(report.kind)},
                                      {"pid", report.pid},
                                      {"comm", report.names.comm},
                                      {"container_id", report.names.container},
                                      {"slurm_job_id", report.names.slurm_job_id},
                                      {"summary", sentence_of(report)}});
    }
    if (sinks_ && sinks_->want(sinks::Events::job_reports)) {
        sinks_->send(sinks::Events::job_reports, job_report_line(report));
    }
}

}  // namespace gpusnoop::probes
