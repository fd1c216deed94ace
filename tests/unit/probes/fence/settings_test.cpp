// The block `fence:` of the configuration.
#include "exporter/probes/fence/probe.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;

namespace {

std::string fence_problem_of(const std::string &text) {
    const auto config = config::parse(text, "c.yaml", probes::setting_blocks());
    return config ? "" : config.error().message;
}

}  // namespace

TEST_CASE("the settings of fences are read") {
    const auto config =
        config::parse("fence: {enabled: false, max_fences: 100, ring_bytes: 64KiB}\n", "c.yaml",
                      probes::setting_blocks());
    REQUIRE(config);
    CHECK(config->of<probes::FenceConfig>() == probes::FenceConfig{false, 100, 65536});
}

TEST_CASE("what is wrong with the settings of fences is said with its place") {
    CHECK(fence_problem_of("fence: {ring_bytes: 5000}\n")
              .starts_with("c.yaml:1:21: fence.ring_bytes"));
    CHECK(fence_problem_of("fence: {fences: 1}\n").starts_with("c.yaml:1:9: fence.fences: "));
}
