// The API of the calls in flight, for people and programs that look for a call that hangs.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/in_flight/watch.h"

namespace gpusnoop::probes {

inline constexpr std::string_view in_flight_page_name = "in_flight";

// What a document is made of.
struct InFlightState {
    OpenCalls open;                           // the oldest first
    std::vector<UnreturnedCall> unreturned;   // the newest first
    std::chrono::nanoseconds now{};           // of the calls' clock
    std::chrono::nanoseconds to_realtime{};   // from it to CLOCK_REALTIME
    std::chrono::milliseconds min_age{};      // of the calls
    std::shared_ptr<InFlightWatch> stacks{};  // null: no stacks
};

// "in_flight". docs/api.md describes the parameters and the members.
[[nodiscard]] ApiPage in_flight_page(InFlightState state);

}  // namespace gpusnoop::probes
