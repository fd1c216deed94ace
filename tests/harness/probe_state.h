// What the page says of a probe itself.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/harness/guest.h"
#include "tests/harness/page.h"

namespace harness {

// gpusnoop_probe_state has one series for each probe, which names its state.
inline std::string state_of(const Page &page, const std::string &probe) {
    const auto samples = page.samples("gpusnoop_probe_state", {{"probe", probe}});
    REQUIRE(samples.size() == 1);
    CHECK(samples.front().value == 1);
    return samples.front().labels.at("state");
}

// Runs of the probe's programs that the kernel left out, each of which is an event that was not
// seen. Linux 7 leaves them out while another thread is preempted inside of that program on that
// CPU (docs/kernel.md), for which a slow emulated machine gives it the time. Other kernels leave
// out none.
inline double left_out_runs(const Page &page, const std::string &probe) {
    const double left_out =
        page.sum("gpusnoop_probe_events_lost_total", {{"probe", probe}, {"reason", "skipped"}});
    const double entries = page.sum("gpusnoop_probe_entries_total", {{"probe", probe}});
    CHECK(left_out <= (in_guest() ? std::max(4.0, 0.05 * entries) : 0));
    return left_out;
}

}  // namespace harness
