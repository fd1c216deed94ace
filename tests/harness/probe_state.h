// gpusnoop_probe_state: a state set, with one 1 for each probe.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/harness/page.h"

namespace harness {

inline std::string state_of(const Page &page, const std::string &probe) {
    std::string state;
    const auto samples = page.samples("gpusnoop_probe_state", {{"probe", probe}});
    CHECK(samples.size() == 4);
    CHECK(page.sum("gpusnoop_probe_state", {{"probe", probe}}) == 1);
    for (const Sample &sample : samples) {
        if (sample.value == 1) {
            state = sample.labels.at("state");
        }
    }
    return state;
}

}  // namespace harness
