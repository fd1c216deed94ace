// The families of calls in flight.
#pragma once

#include <cstdint>

#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// For a set whose families have the label pid.
struct InFlightGauges {
    series::Family &calls;
    series::Family &oldest;
};
InFlightGauges make_in_flight_gauges(series::FamilySet &set);

// Fills them. `now_ns` is the time of the calls' clock.
void add_in_flight(const InFlightGauges &gauges, const OpenCalls &open, std::uint64_t now_ns);

}  // namespace gpusnoop::probes
