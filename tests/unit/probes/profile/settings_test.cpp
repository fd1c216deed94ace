// The block `profile:` of the configuration.
#include "exporter/probes/profile/probe.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;

namespace {

std::string profile_settings_problem_of(const std::string &text) {
    const auto config = config::parse(text, "c.yaml", probes::setting_blocks());
    return config ? "" : config.error().message;
}

}  // namespace

TEST_CASE("the settings of profiles are read") {
    const auto config = config::parse(
        "profile: {enabled: false, max_duration: 30s, max_stacks: 1000, "
        "continuous_frequency: 19, keep: 1m}\n",
        "c.yaml", probes::setting_blocks());
    REQUIRE(config);
    CHECK(
        config->of<probes::ProfileConfig>() ==
        probes::ProfileConfig{false, std::chrono::seconds(30), 1000, 19, std::chrono::minutes(1)});
}

TEST_CASE("what is wrong with the settings of profiles is said with its place") {
    CHECK(profile_settings_problem_of("profile: {max_stacks: 5}\n")
              .starts_with("c.yaml:1:23: profile.max_stacks"));
    CHECK(profile_settings_problem_of("profile: {max_duration: 2h}\n")
              .starts_with("c.yaml:1:25: profile.max_duration"));
    CHECK(profile_settings_problem_of("profile: {keep: 1s}\n")
              .starts_with("c.yaml:1:17: profile.keep"));
    CHECK(profile_settings_problem_of("profile: {continuous_frequency: 200}\n")
              .starts_with("c.yaml:1:33: profile.continuous_frequency"));
    CHECK(profile_settings_problem_of("profile: {heap: 1}\n")
              .starts_with("c.yaml:1:11: profile.heap: "));
}
