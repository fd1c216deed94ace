// What a probe that follows calls to their ends gives the probe of calls in flight.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/frame/calls/open_calls.h"

namespace gpusnoop::probes {

// For the aggregating thread.
class CallFollower {
public:
    virtual ~CallFollower() = default;

    // The calls that are in flight now. Fails while the probe is down, and where the kernel cannot
    // list them.
    [[nodiscard]] virtual Result<OpenCalls> open_calls(const OpenCallQuery &query) = 0;
    // The calls that threads were inside of when they ended, since the last time.
    [[nodiscard]] virtual std::vector<UnreturnedCall> take_unreturned() = 0;
};

// With the names of their probes, which live as long as the one that reads them.
using CallFollowers = std::vector<std::pair<std::string_view, CallFollower *>>;
using CallFollowersPtr = std::shared_ptr<CallFollowers>;

}  // namespace gpusnoop::probes
