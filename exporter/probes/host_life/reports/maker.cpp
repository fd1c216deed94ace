#include "exporter/probes/host_life/reports/maker.h"

#include <algorithm>

#include "exporter/base/seconds.h"
#include "exporter/probes/host_life/exits.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

// An end waits so long for the rest, which the kernel's table of live allocations can delay.
constexpr std::chrono::minutes ends_are_kept{11};
// The two probes that see a process's end see it within this.
constexpr std::chrono::seconds same_end{2};

nanoseconds to_time(std::uint64_t ns) {
    return nanoseconds(static_cast<std::int64_t>(ns));
}

}  // namespace

ReportMaker::ReportMaker(ReportFactsPtr facts, Settings settings)
    : facts_(std::move(facts)),
      delay_(settings.delay),
      on_report_(std::move(settings.on_report)),
      owners_(std::move(settings.node), settings.started) {
    facts_->want();
}

// ---- ends ----

void ReportMaker::add_end(std::uint32_t pid, End end) {
    if (ends_.size() < most_ends) {
        ends_.emplace(pid, std::move(end));
    }
}

void ReportMaker::on_exit(const life_exit_record &record) {
    if ((record.reasons & FOLLOWED_CUDA) != 0) {
        add_end(record.head.tgid, {.followed = {record.head.tgid, record.head.since_ns},
                                   .at = to_time(record.head.at_ns),
                                   .cuda_since_ns = record.cuda_since_ns,
                                   .cause = cause_of(record),
                                   .lifetime = to_time(record.lifetime_ns)});
    }
}

void ReportMaker::on_exec(const follow_record &record) {
    if ((record.reasons & FOLLOWED_CUDA) != 0) {
        add_end(record.head.tgid, {.followed = {record.head.tgid, record.head.since_ns},
                                   .at = to_time(record.head.at_ns),
                                   .cuda_since_ns = 0,
                                   .cause = std::string(cause_exec),
                                   .lifetime = {}});
    }
}

// The record of an end does not name the CUDA probe's process if the threads that made its calls
// ended later.
std::optional<ReportMaker::End> ReportMaker::take_end(const GpuProcessTotals &totals) {
    const auto [begin, end] = ends_.equal_range(totals.process.key.tgid);
    const auto found = std::find_if(begin, end, [&](const auto &entry) {
        const End &one = entry.second;
        return one.cuda_since_ns == 0
                   ? one.at - totals.ended <= same_end && totals.ended - one.at <= same_end
                   : one.cuda_since_ns == totals.process.key.since_ns;
    });
    if (found == end) {
        return std::nullopt;
    }
    std::optional<End> taken(std::move(found->second));
    ends_.erase(found);
    return taken;
}

// ---- reports ----

JobReport ReportMaker::report_of(const GpuProcessTotals &totals, JobOwners::Moment now) {
    const ProcessIdentity &process = totals.process;
    const nanoseconds called = to_time(process.key.since_ns);
    const std::optional<End> end = take_end(totals);
    JobReport report{.ended = now.real(totals.ended), .pid = process.key.tgid};
    report.names = process;
    report.pod_uid = process.pod_uid;
    report.slurm_step_id = process.slurm_step_id;
    report.lasted = end && end->lifetime ? *end->lifetime : totals.ended - called;
    report.at_least.lasted = !end || !end->lifetime;
    const double seconds = in_seconds(totals.ended - called);
    for (const auto &[gpu, held] : totals.held) {
        report.gpus[gpu] = {
            .peak_bytes = held.peak_bytes,
            .mean_bytes = seconds > 0 ? static_cast<std::uint64_t>(held.byte_seconds / seconds)
                                      : held.peak_bytes,
            .unfreed_bytes = held.unfreed_bytes};
    }
    report.launches = totals.launches;
    report.copied_bytes = totals.copied_bytes;
    report.errors = totals.errors;
    const ReportFacts::Sources &sources = facts_->sources();
    if (sources.host_time && end) {
        const auto waited = facts_->take_waited(end->followed);
        const bool submitted = totals.launches > 0 || !totals.copied_bytes.empty();
        report.waited = waited      ? std::optional(waited->time)
                        : submitted ? std::nullopt
                                    : std::optional(nanoseconds::zero());
        report.at_least.waited = waited && !waited->is_complete;
    }
    const auto slow = facts_->take_slow(process.key.tgid);
    const auto hanging = facts_->take_hanging(process.key.tgid);
    report.slow_calls = sources.functions ? std::optional(slow.value_or(0)) : std::nullopt;
    report.hanging_calls = sources.in_flight ? std::optional(hanging.value_or(0)) : std::nullopt;
    if (end) {
        report.causes.emplace(end->cause, 1);
    }
    report.at_least.memory = !totals.is_memory_complete;
    report.at_least.calls = !totals.are_calls_complete;
    report.at_least.launches = !totals.are_launches_complete;
    report.at_least.slow = !totals.are_calls_complete;
    return report;
}

void ReportMaker::make(JobOwners::Moment now) {
    for (GpuProcessTotals &totals : facts_->take()) {
        waiting_.push_back({std::move(totals), now.monotonic});
    }
    while (!waiting_.empty() &&
           (waiting_.front().since + delay_ <= now.monotonic || waiting_.size() > most_waiting)) {
        const GpuProcessTotals totals = std::move(waiting_.front().totals);
        waiting_.pop_front();
        const JobReport report = report_of(totals, now);
        owners_.on_end(totals, report, now);
        on_report_(report);
    }
    for (const JobReport &report : owners_.take_ended(now)) {
        on_report_(report);
    }
    warn_of_left_out();
    facts_->forget_old(now.monotonic);
    std::erase_if(
        ends_, [&](const auto &entry) { return now.monotonic - entry.second.at > ends_are_kept; });
}

void ReportMaker::warn_of_left_out() {
    if (owners_.left_out() == left_out_) {
        return;
    }
    if (lines_.due("left out")) {
        left_out_ = owners_.left_out();
        log::warn(
            "some containers or Slurm steps get no report: too many of one user, or of all users, "
            "run GPU processes");
    }
}

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

JobReportsOverview JobReportHistory::overview() const {
    JobReportsOverview overview;
    overview.count = of_processes_.size() + of_owners_.size();
    for (const std::deque<JobReport> *const kept : {&of_processes_, &of_owners_}) {
        for (std::size_t i = 0; i < std::min(kept->size(), max_overview_reports); i++) {
            const JobReport &report = *(kept->rbegin() + static_cast<std::ptrdiff_t>(i));
            overview.last.push_back({.ended = report.ended, .sentence = sentence_of(report)});
        }
    }
    std::ranges::stable_sort(overview.last, std::greater(), &JobReportOverview::ended);
    return overview;
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
