// What `why` says of programs with and without their launch gaps.
#include <catch2/catch_test_macros.hpp>
#include <initializer_list>
#include <utility>
#include <vector>

#include "exporter/probes/host_time/gaps/conclusion.h"

using namespace gpusnoop::probes;

TEST_CASE("why says the same of a program whose launches are observed, and are not") {
    struct Spent {
        std::uint32_t phase;
        std::uint32_t state;
        std::uint64_t ns;
    };
    struct Situation {
        const char *key;
        std::vector<Spent> spent;  // in percent
        GapTimes::Sum gaps;        // while they are observed
    };
    const auto gaps_of = [](std::uint64_t ns,
                            std::initializer_list<std::pair<std::uint32_t, std::uint64_t>> states) {
        GapTimes::Sum sum{.gaps = 1'000, .ns = ns};
        for (const auto &[state, in_state] : states) {
            sum.state_ns[state] = in_state;
        }
        return sum;
    };
    const Spent some_launches = {HOST_launch, HOST_STATE_running, 4};
    const Spent some_wait = {HOST_wait, HOST_STATE_running, 16};
    for (const Situation &situation : std::vector<Situation>{
             {"gpu",
              {{HOST_wait, HOST_STATE_running, 76}, {HOST_host, HOST_STATE_running, 20}},
              gaps_of(20, {{HOST_STATE_running, 20}})},
             {"data",
              {some_wait, {HOST_host, HOST_STATE_pipe, 68}, {HOST_host, HOST_STATE_running, 12}},
              gaps_of(80, {{HOST_STATE_pipe, 68}, {HOST_STATE_running, 12}})},
             {"lock",
              {some_wait, {HOST_host, HOST_STATE_futex, 68}, {HOST_host, HOST_STATE_running, 12}},
              gaps_of(80, {{HOST_STATE_futex, 68}, {HOST_STATE_running, 12}})},
             {"memory_calls",
              {some_wait, {HOST_memory, HOST_STATE_running, 68}, {HOST_host, HOST_STATE_pipe, 12}},
              gaps_of(80, {{HOST_GAP_CUDA_CALL, 68}, {HOST_STATE_pipe, 12}})},
             {"host",
              {some_wait, {HOST_host, HOST_STATE_running, 68}, {HOST_host, HOST_STATE_pipe, 12}},
              gaps_of(80, {{HOST_STATE_running, 68}, {HOST_STATE_pipe, 12}})},
             {"file",
              {some_wait, {HOST_host, HOST_STATE_file, 68}, {HOST_host, HOST_STATE_running, 12}},
              gaps_of(80, {{HOST_STATE_file, 68}, {HOST_STATE_running, 12}})},
             {"launches",
              {some_wait,
               {HOST_launch, HOST_STATE_running, 60},
               {HOST_host, HOST_STATE_running, 20}},
              gaps_of(20, {{HOST_STATE_running, 20}})},
             {"no_cpu",
              {some_wait,
               {HOST_host, HOST_STATE_runnable, 60},
               {HOST_host, HOST_STATE_running, 20}},
              gaps_of(80, {{HOST_STATE_runnable, 60}, {HOST_STATE_running, 20}})},
             {"throttled",
              {some_wait,
               {HOST_host, HOST_STATE_throttled, 70},
               {HOST_host, HOST_STATE_running, 10}},
              gaps_of(80, {{HOST_STATE_throttled, 70}, {HOST_STATE_running, 10}})},
             {"page_fault",
              {some_wait,
               {HOST_host, HOST_STATE_page_fault, 70},
               {HOST_host, HOST_STATE_running, 10}},
              gaps_of(80, {{HOST_STATE_page_fault, 70}, {HOST_STATE_running, 10}})},
             // Mixes of causes, with half and three quarters of the gaps in short ones.
             {"host",
              {{HOST_wait, HOST_STATE_running, 26},
               {HOST_host, HOST_STATE_running, 25},
               {HOST_host, HOST_STATE_runnable, 20},
               {HOST_launch, HOST_STATE_running, 8},
               {HOST_host, HOST_STATE_pipe, 11},
               {HOST_other, HOST_STATE_running, 6}},
              gaps_of(60, {{HOST_STATE_running, 8},
                           {HOST_STATE_runnable, 14},
                           {HOST_STATE_pipe, 6},
                           {HOST_GAP_CUDA_CALL, 2}})},
             {"host",
              {{HOST_wait, HOST_STATE_running, 11},
               {HOST_host, HOST_STATE_running, 47},
               {HOST_host, HOST_STATE_runnable, 38}},
              gaps_of(80, {{HOST_STATE_running, 3}, {HOST_STATE_runnable, 17}})}}) {
        CAPTURE(situation.key);
        ProcessTimes times;
        for (const Spent &spent : situation.spent) {
            times.cells.ns[spent.phase][spent.state] += spent.ns;
        }
        times.cells.ns[some_launches.phase][some_launches.state] += some_launches.ns;
        REQUIRE(times.cells.wall_ns() == 100);
        const auto unobserved = conclude(times, 100);
        CHECK(key_of(unobserved->limit) == situation.key);
        times.gaps.by_drain[HOST_DRAIN_device] = situation.gaps;
        const auto observed = conclude(times, 100);
        CHECK(key_of(observed->limit) == situation.key);
        // All but what is said of the gaps is the same.
        Conclusion without_gaps = *observed;
        without_gaps.starved = 0;
        CHECK(sentence_of(without_gaps) == sentence_of(*unobserved));
    }
}
