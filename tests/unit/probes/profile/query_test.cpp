// The parameters of /api/v1/profile.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/profile/probe.h"
#include "exporter/probes/profile/query.h"
#include "tests/unit/config/problems.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

// The block `profile:` of the configuration.

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
    CHECK(test::problems("profile: {max_stacks: 5}\n")
              .starts_with("c.yaml:1:23: profile.max_stacks"));
    CHECK(test::problems("profile: {max_duration: 2h}\n")
              .starts_with("c.yaml:1:25: profile.max_duration"));
    CHECK(test::problems("profile: {keep: 1s}\n").starts_with("c.yaml:1:17: profile.keep"));
    CHECK(test::problems("profile: {continuous_frequency: 200}\n")
              .starts_with("c.yaml:1:33: profile.continuous_frequency"));
    CHECK(test::problems("profile: {heap: 1}\n").starts_with("c.yaml:1:11: profile.heap: "));
}

namespace {

std::string profile_query_problem_of(const QueryParameters &parameters,
                                     const ProfileConfig &config = {}) {
    const auto query = read_profile_query(parameters, config);
    return query ? "" : query.error().message;
}

}  // namespace

TEST_CASE("a profile is of the CPU for ten seconds, unless the query says otherwise") {
    const auto without = read_profile_query({}, {});
    REQUIRE(without);
    CHECK(without->settings.type == ProfileType::cpu);
    CHECK(without->settings.frequency == 49);
    CHECK(without->duration == 10s);
    CHECK(without->format == ProfileFormat::folded);
    CHECK(read_profile_query({}, {.max_duration = 2s})->duration == 2s);

    const auto with = read_profile_query(
        {{"type", "offcpu"}, {"duration", "1500ms"}, {"format", "svg"}, {"comm", "python*"}}, {});
    REQUIRE(with);
    CHECK(with->settings.type == ProfileType::offcpu);
    CHECK(with->duration == 1500ms);
    CHECK(with->format == ProfileFormat::svg);
    CHECK(with->settings.filter.comm == "python*");
    // As Pyroscope and Parca ask.
    const auto scraped =
        read_profile_query({{"seconds", "30"}, {"frequency", "99"}, {"pid", "12"}}, {});
    REQUIRE(scraped);
    CHECK(scraped->duration == 30s);
    CHECK(scraped->settings.frequency == 99);
    CHECK(scraped->settings.filter.pids == std::vector<std::uint32_t>{12});
}

TEST_CASE("what is wrong with a query for a profile is said in a sentence") {
    CHECK(profile_query_problem_of({{"type", "heap"}}) ==
          "type must be one of cpu, offcpu, page_faults, not \"heap\"");
    CHECK(profile_query_problem_of({{"format", "gif"}}) ==
          "format must be one of folded, json, pprof, svg, not \"gif\"");
    CHECK(profile_query_problem_of({{"duration", "6m"}}) ==
          "duration must be from 100ms to 5m, like 10s, not \"6m\"");
    CHECK(profile_query_problem_of({{"duration", "10"}}) ==
          "duration must be from 100ms to 5m, like 10s, not \"10\"");
    CHECK(profile_query_problem_of({{"seconds", "0"}}) ==
          "seconds must be a number from 1 to 300, not \"0\"");
    CHECK(profile_query_problem_of({{"seconds", "301"}}) ==
          "seconds must be a number from 1 to 300, not \"301\"");
    CHECK(profile_query_problem_of({{"frequency", "1000"}}) ==
          "frequency must be a number from 1 to 999, not \"1000\"");
    CHECK(profile_query_problem_of({{"frequency", "99"}, {"type", "offcpu"}}) ==
          "frequency is only for type=cpu: the other types see each event");
    CHECK(profile_query_problem_of({{"pid", "1"}, {"comm", "x"}}) == "give pid or comm, not both");
    CHECK(profile_query_problem_of({{"seconds", "1"}, {"duration", "1s"}}) ==
          "duration and seconds are the same: give one of them");
    CHECK(profile_query_problem_of({{"pid", "0"}}) ==
          "pid must be a number from 1 to 4294967295, not \"0\"");
    CHECK(profile_query_problem_of({{"limit", "1"}}) ==
          "\"limit\" is not a parameter of this page; it has type, duration, seconds, past, "
          "frequency, pid, comm and format");
}

TEST_CASE("the past can be asked for where a profile is taken all the time") {
    const ProfileConfig config{.continuous_frequency = 19, .keep = 2min};
    const auto query = read_profile_query({{"past", "90s"}, {"comm", "python*"}}, config);
    REQUIRE(query);
    CHECK(query->is_of_past);
    CHECK(query->duration == 90s);
    CHECK(query->settings.filter.comm == "python*");
    CHECK_FALSE(read_profile_query({}, config)->is_of_past);
    CHECK(profile_query_problem_of({{"past", "3m"}}, config) ==
          "past must be from 100ms to 2m, like 10s, not \"3m\"");
    for (const auto &[name, value] : QueryParameters{
             {"duration", "1s"}, {"seconds", "1"}, {"frequency", "49"}, {"type", "offcpu"}}) {
        CHECK(profile_query_problem_of({{"past", "1m"}, {name, value}}, config) ==
              "past is of the profile of the CPU that is taken all the time: it goes with pid, "
              "comm and format alone");
    }
    CHECK(profile_query_problem_of({{"past", "1m"}}) ==
          "this exporter keeps no past: profile.continuous_frequency is 0. Without past, it takes "
          "a profile now");
}
