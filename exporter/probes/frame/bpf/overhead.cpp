#include "exporter/probes/frame/bpf/overhead.h"

#include <chrono>
#include <memory>

#include "exporter/base/seconds.h"

namespace gpusnoop::probes {

series::Family &make_overhead_family(series::FamilySet &set) {
    return set.counter(
        "overhead_seconds_total",
        "Estimated time that the probes on functions cost the threads of the process: the number "
        "of probe hits of each kind, times the measured cost of one (probe_cost_seconds). Usually "
        "a lower bound, and never more than the CPU time of the threads.",
        {{"probe", true}}, nanoseconds_per_second);
}

OverheadShare &Overhead::share_of(KnownProcess &process) {
    OverheadSharePtr &share = process.overhead.share;
    if (share == nullptr) {
        share = limits_ ? limits_->share_of(process.key.tgid, process.started)
                        : std::make_shared<OverheadShare>();
    }
    return *share;
}

void Overhead::note_ended(KnownProcess &process, std::uint64_t cost_ns, std::uint64_t run_ns) {
    if (limits_) {
        share_of(process).has_run(std::chrono::nanoseconds(run_ns));
    }
    note(process, cost_ns);
}

void Overhead::note_running(KnownProcess &process, std::uint64_t cost_ns) {
    if (cost_ns <= process.overhead.noted_ns) {
        return;  // nothing new, or not known
    }
    if (limits_) {
        const auto ran = limits_->run_time_of(process.key.tgid);
        if (!ran) {
            return;  // the record of its end is on its way
        }
        share_of(process).has_run(*ran);
    }
    note(process, cost_ns);
}

void Overhead::leave_out(KnownProcess &process, std::uint64_t cost_ns) {
    process.overhead.noted_ns = cost_ns;
    share_of(process).shown_ns += cost_ns;
}

void Overhead::note(KnownProcess &process, std::uint64_t cost_ns) {
    if (cost_ns <= process.overhead.noted_ns) {
        return;
    }
    const std::uint64_t more_ns = share_of(process).take(cost_ns - process.overhead.noted_ns);
    if (more_ns == 0) {
        return;
    }
    if (!process.overhead.slot) {
        series::LabelValues labels = process.labels;
        labels.push_back(probe_);
        process.overhead.slot = family_.slot(process.owner, labels);
    }
    family_.add(*process.overhead.slot, more_ns);
    process.overhead.noted_ns += more_ns;
}

}  // namespace gpusnoop::probes
