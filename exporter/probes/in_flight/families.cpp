#include "exporter/probes/in_flight/families.h"

#include <algorithm>
#include <string>

namespace gpusnoop::probes {

InFlightGauges make_in_flight_gauges(series::FamilySet &set) {
    return {
        .calls = set.gauge("calls_in_flight",
                           "Calls that began at least in_flight.min_age ago and have not returned, "
                           "of each running process.",
                           {{"library"}, {"function"}}),
        .oldest = set.gauge("oldest_call_seconds", "Age of the oldest of these calls.",
                            {{"library"}, {"function"}}, 1e9),
    };
}

void add_in_flight(const InFlightGauges &gauges, std::span<const OpenCall> calls,
                   std::uint64_t now_ns) {
    for (const OpenCall &call : calls) {
        const series::LabelValues values = {
            call.comm,    call.script,  call.container, call.slurm_job_id, std::to_string(call.pid),
            call.library, call.function};
        gauges.calls.add(gauges.calls.slot(1, values), 1);
        const series::Slot oldest = gauges.oldest.slot(1, values);
        gauges.oldest.set(oldest, std::max(gauges.oldest.value(oldest),
                                           now_ns - std::min(now_ns, call.began_ns)));
    }
}

}  // namespace gpusnoop::probes
