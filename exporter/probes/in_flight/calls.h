// The calls in flight of all probes, each call once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// Adds the calls of a probe. A call that two probes follow, as cuda and functions follow
// cudaStreamSynchronize, becomes one, with what either knows of it.
void join(OpenCalls &all, OpenCalls more);

// Adds to a call what another probe knows of the same call.
void merge(OpenCall &into, OpenCall other);

// The oldest first.
void sort_by_age(std::vector<OpenCall> &calls);

// By thread, when its innermost call began: the stack is shown with that call.
[[nodiscard]] std::map<std::uint32_t, std::uint64_t> innermost_calls(
    const std::vector<OpenCall> &calls);

// The threads of these calls, each with all of its calls: its stack shows where it left each.
[[nodiscard]] OpenCalls threads_of(const std::vector<OpenCall> &calls, const OpenCalls &all);

// The families of calls in flight.
// For a set whose families have the label pid.
struct InFlightGauges {
    series::Family &calls;
    series::Family &oldest;
    series::Family &site;
};
InFlightGauges make_in_flight_gauges(series::FamilySet &set);

// Where in Python a call was made; empty: not known.
using SiteOfCall = std::function<std::string(const OpenCall &)>;

// Fills them. `now_ns` is the time of the calls' clock.
void add_in_flight(const InFlightGauges &gauges, const OpenCalls &open, std::uint64_t now_ns,
                   const SiteOfCall &site_of = {});

}  // namespace gpusnoop::probes
