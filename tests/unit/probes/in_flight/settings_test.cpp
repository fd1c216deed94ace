// The block `in_flight:` of the configuration.
#include "exporter/probes/frame/calls/open_calls.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;
using namespace std::chrono_literals;

TEST_CASE("the settings of calls in flight are read") {
    const auto config = config::parse("in_flight: {enabled: false, min_age: 250ms}\n", "c.yaml",
                                      probes::setting_blocks());
    REQUIRE(config);
    const auto &in_flight = config->of<probes::InFlightConfig>();
    CHECK(in_flight == probes::InFlightConfig{false, 250ms});
    CHECK(in_flight.unreturned_after() == 0ms);
    CHECK(probes::InFlightConfig{}.unreturned_after() == 1s);
}

TEST_CASE("what is wrong with the settings of calls in flight is said with its place") {
    const auto problem_of = [](const std::string &text) {
        const auto config = config::parse(text, "c.yaml", probes::setting_blocks());
        return config ? "" : config.error().message;
    };
    CHECK(problem_of("in_flight: {min_age: 0s}\n").starts_with("c.yaml:1:22: in_flight.min_age"));
    CHECK(problem_of("in_flight: {age: 1s}\n").starts_with("c.yaml:1:13: in_flight.age: "));
}
