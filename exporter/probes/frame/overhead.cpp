#include "exporter/probes/frame/overhead.h"

#include <algorithm>

#include "exporter/base/seconds.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::probes {

series::Family &make_overhead_family(series::FamilySet &set) {
    return set.counter(
        "overhead_seconds_total",
        "Time that the exporter's probes on functions have cost the process's threads: its calls, "
        "by kind of probe, times what one costs on this machine (probe_cost_seconds). A lower "
        "bound.",
        {{"probe", true}}, nanoseconds_per_second);
}

std::uint64_t within_what_it_ran(std::uint64_t cost_ns, std::uint32_t tgid) {
    const auto ran = processes::cpu_time_of(tgid);
    return ran ? std::min(cost_ns, static_cast<std::uint64_t>(ran->count())) : cost_ns;
}

void Overhead::note(KnownProcess &process, std::uint64_t cost_ns) {
    if (cost_ns <= process.overhead.noted_ns) {
        return;  // nothing new, or not known
    }
    if (!process.overhead.slot) {
        series::LabelValues labels = process.labels;
        labels.push_back(probe_);
        process.overhead.slot = family_.slot(process.owner, labels);
    }
    family_.add(*process.overhead.slot, cost_ns - process.overhead.noted_ns);
    process.overhead.noted_ns = cost_ns;
}

}  // namespace gpusnoop::probes
