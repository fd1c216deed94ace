#include "exporter/probes/in_flight/families.h"

#include <algorithm>
#include <string>

namespace gpusnoop::probes {

InFlightGauges make_in_flight_gauges(series::FamilySet &set) {
    return {
        .calls = set.gauge("calls_in_flight",
                           "Calls that began at least in_flight.min_age ago and have not "
                           "returned, per running process.",
                           {{"library"}, {"function"}}),
        .oldest =
            set.gauge("oldest_call_seconds", "Age of the oldest of the calls in calls_in_flight.",
                      {{"library"}, {"function"}}, 1e9),
    };
}

void add_in_flight(const InFlightGauges &gauges, const OpenCalls &open, std::uint64_t now_ns) {
    const auto add = [&](const auto &of, std::uint64_t count, std::uint64_t oldest_ns) {
        const series::LabelValues values = {
            of.comm,    of.script,  of.container, of.slurm_job_id, std::to_string(of.pid),
            of.library, of.function};
        gauges.calls.add(gauges.calls.slot(1, values), count);
        const series::Slot oldest = gauges.oldest.slot(1, values);
        gauges.oldest.set(
            oldest, std::max(gauges.oldest.value(oldest), now_ns - std::min(now_ns, oldest_ns)));
    };
    for (const OpenCall &call : open.calls) {
        add(call, 1, call.began_ns);
    }
    for (const MoreCalls &more : open.more) {
        add(more, more.count, more.oldest_ns);
    }
}

}  // namespace gpusnoop::probes
