#include "exporter/probes/host_time/gaps/conclusion.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/frame/overview.h"

using namespace gpusnoop::probes;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Spent {
    std::uint32_t phase;
    std::uint32_t state;
    std::uint64_t ns;
};

ProcessTimes times_of(std::initializer_list<Spent> all) {
    ProcessTimes times;
    for (const auto &[phase, state, ns] : all) {
        times.cells.ns[phase][state] += ns;
    }
    return times;
}

// One that lasts so long in this state.
GapTimes::Sum conclusion_gap_of(std::uint32_t state, std::uint64_t ns) {
    GapTimes::Sum sum{.gaps = 1, .ns = ns};
    sum.state_ns[state] = ns;
    return sum;
}

// Of one thread.
Conclusion conclusion_of(std::initializer_list<Spent> all) {
    ProcessTimes times = times_of(all);
    times.gaps.by_drain[HOST_DRAIN_none].gaps = 1;  // it has launched something
    return *conclude(times, times.cells.wall_ns());
}

bool is_near(double a, double b) {
    return std::abs(a - b) < 1e-9;
}

}  // namespace

TEST_CASE("each cell is one limit, and time without a CPU is that in any phase") {
    for (std::uint32_t phase = 0; phase < HOST_PHASE_COUNT; phase++) {
        CHECK(limit_of(phase, HOST_STATE_throttled) == HostLimit::throttled);
        CHECK(limit_of(phase, HOST_STATE_runnable) == HostLimit::no_cpu);
        CHECK(limit_of(phase, HOST_STATE_stolen) == HostLimit::stolen);
    }
    const std::vector<std::pair<std::uint32_t, HostLimit>> inside = {
        {HOST_launch, HostLimit::launches},
        {HOST_copy, HostLimit::copies},
        {HOST_wait, HostLimit::gpu},
        {HOST_memory, HostLimit::memory_calls},
        {HOST_other, HostLimit::cuda_calls}};
    for (const auto &[phase, limit] : inside) {
        for (const std::uint32_t state : {HOST_STATE_running, HOST_STATE_poll, HOST_STATE_other}) {
            CHECK(limit_of(phase, state) == limit);
        }
    }
}

TEST_CASE("what limits a program is what most of its launching thread's time goes to") {
    struct Situation {
        const char *key;
        Spent most;
        const char *words;
        const char *advice;
    };
    for (const Situation &situation : std::vector<Situation>{
             {"gpu", {HOST_wait, HOST_STATE_running, 70}, "The GPU is the limit", "batch size"},
             {"gpu", {HOST_wait, HOST_STATE_poll, 70}, "waited for it 70 % of the time", ""},
             {"data",
              {HOST_host, HOST_STATE_pipe, 70},
              "70 % of the time, mostly in the state pipe",
              "data loader"},
             {"data", {HOST_host, HOST_STATE_socket, 70}, "in the state socket", "data loader"},
             {"data", {HOST_host, HOST_STATE_poll, 70}, "in the state poll", "requests"},
             {"throttled",
              {HOST_host, HOST_STATE_throttled, 70},
              "CPU limit of its cgroup",
              "Raise the CPU limit"},
             {"no_cpu", {HOST_launch, HOST_STATE_runnable, 70}, "had no CPU 70 %", "neighbors"},
             {"stolen", {HOST_host, HOST_STATE_stolen, 70}, "hypervisor", "/proc/interrupts"},
             {"file", {HOST_host, HOST_STATE_file, 70}, "Files are the limit", "storage"},
             {"file", {HOST_host, HOST_STATE_io_uring, 70}, "Files are the limit", "storage"},
             {"page_fault",
              {HOST_host, HOST_STATE_page_fault, 70},
              "page faults",
              "{kind=\"swap\"}"},
             {"lock", {HOST_host, HOST_STATE_futex, 70}, "Another thread is the limit", "GIL"},
             {"memory_calls",
              {HOST_memory, HOST_STATE_device, 70},
              "cudaMalloc, cudaFree",
              "before the loop"},
             {"host",
              {HOST_host, HOST_STATE_running, 70},
              "ran outside CUDA calls 70 %",
              "profile"},
             {"launches",
              {HOST_launch, HOST_STATE_running, 70},
              "Launches are the limit",
              "CUDA graphs"},
             {"launches", {HOST_launch, HOST_STATE_poll, 70}, "Launches are the limit", "queue"},
             {"copies", {HOST_copy, HOST_STATE_running, 70}, "Copies are the limit", "pin"},
             {"cuda_calls", {HOST_other, HOST_STATE_running, 70}, "Other CUDA calls", "modules"},
             {"address_space", {HOST_host, HOST_STATE_memory, 70}, "mmap, munmap", "buffers"},
             {"sleep", {HOST_host, HOST_STATE_sleep, 70}, "slept 70 %", "sleeps"},
             {"child", {HOST_host, HOST_STATE_child, 70}, "processes to end", "another thread"},
             {"device", {HOST_host, HOST_STATE_device, 70}, "A device", "in_flight"},
             {"stopped", {HOST_host, HOST_STATE_stopped, 70}, "was stopped 70 %", "kill -CONT"},
             {"other", {HOST_host, HOST_STATE_other, 70}, "Something else", "stack"},
         }) {
        CAPTURE(situation.key);
        const bool runs = std::string(situation.key) == "host";
        const Conclusion conclusion =
            conclusion_of({situation.most,
                           {HOST_wait, HOST_STATE_futex, 10},
                           runs ? Spent{HOST_host, HOST_STATE_pipe, 20}
                                : Spent{HOST_host, HOST_STATE_running, 20}});
        CHECK(key_of(conclusion.limit) == situation.key);
        const double waited = situation.most.phase == HOST_wait ? 0.1 : 0;
        if (waited == 0) {
            CHECK(is_near(conclusion.share, 0.7));
            CHECK(conclusion.state == situation.most.state);
        }
        Conclusion alone = conclusion;
        alone.share -= waited;
        CHECK_THAT(sentence_of(alone), ContainsSubstring(situation.words));
        CHECK_THAT(std::string(advice_of(conclusion.limit)), ContainsSubstring(situation.advice));
    }
}

TEST_CASE("every limit has a key of its own, a sentence and an advice") {
    std::set<std::string_view> keys;
    for (std::size_t i = 0; i < host_limits; i++) {
        const auto limit = static_cast<HostLimit>(i);
        keys.insert(key_of(limit));
        const CurrentCall call = {.function = "cudaDeviceSynchronize", .age_ns = 38'200'000'000};
        const std::string sentence = sentence_of({.limit = limit, .share = 0.5, .call = call});
        CAPTURE(sentence);
        CHECK_THAT(sentence, ContainsSubstring(limit == HostLimit::hangs
                                                   ? "in cudaDeviceSynchronize for 38.2s"
                                                   : "50 % of the time"));
        CHECK(sentence.ends_with("."));
        CHECK(advice_of(limit).ends_with("."));
        CHECK(sentence.find('{') == std::string::npos);
        // The page at / has room for it.
        const std::string longest =
            "In the last 120 s: " + sentence_of({.limit = limit,
                                                 .share = 1,
                                                 .state = HOST_STATE_page_fault,
                                                 .starved = 0.49,
                                                 .starved_state = HOST_STATE_page_fault,
                                                 .starved_all_streams = false,
                                                 .call = call});
        CHECK(longest.size() <= max_limit_bytes);
    }
    CHECK(keys.size() == host_limits);
}

TEST_CASE("the GPU is the limit from half of the time on, or from twice anything else on") {
    const auto key = [](std::uint64_t waited, std::uint64_t ran, std::uint64_t blocked) {
        return key_of(conclusion_of({{HOST_wait, HOST_STATE_running, waited},
                                     {HOST_host, HOST_STATE_running, ran},
                                     {HOST_host, HOST_STATE_pipe, blocked}})
                          .limit);
    };
    CHECK(key(50, 50, 0) == "gpu");
    CHECK(key(49, 51, 0) == "host");
    CHECK(key(49, 24, 27) == "data");
    CHECK(key(40, 20, 20) == "gpu");
    CHECK(key(39, 21, 20) == "host");
    CHECK(key(100, 0, 0) == "gpu");
    CHECK(key(0, 1, 2) == "data");
}

TEST_CASE("that one of several launching threads waits for another is no limit") {
    // Forward in one thread, backward in the other one.
    const ProcessTimes times = times_of({{HOST_host, HOST_STATE_running, 75},
                                         {HOST_launch, HOST_STATE_running, 5},
                                         {HOST_wait, HOST_STATE_running, 20},
                                         {HOST_host, HOST_STATE_futex, 100}});
    const auto two = conclude(times, 100);
    REQUIRE(two);
    CHECK(key_of(two->limit) == "host");
    CHECK(is_near(two->share, 0.75));
    CHECK(two->idle_ns == 100);
    // Of one thread it is.
    const auto one = conclude(times, 200);
    CHECK(key_of(one->limit) == "lock");
    CHECK(one->idle_ns == 0);
    // Both wait for a third that launches nothing.
    const auto both = conclude(
        times_of({{HOST_launch, HOST_STATE_running, 40}, {HOST_host, HOST_STATE_futex, 160}}), 100);
    CHECK(key_of(both->limit) == "lock");
    CHECK(is_near(both->share, 0.6));
    // Threads that work at the same time wait for nobody.
    const auto parallel = conclude(
        times_of({{HOST_host, HOST_STATE_running, 190}, {HOST_host, HOST_STATE_futex, 10}}), 100);
    CHECK(parallel->idle_ns == 10);
    CHECK(is_near(parallel->share, 1));
}

TEST_CASE("without any time there is no conclusion") {
    CHECK_FALSE(conclude(ProcessTimes(), 100));
    CHECK_FALSE(conclude(times_of({{HOST_host, HOST_STATE_futex, 100}}), 0));
}

TEST_CASE("what the GPU waits for is what the thread did in the gaps after waits for it") {
    // Most of the time in the pipe, the GPU still works; the gap is spent running.
    ProcessTimes times = times_of({{HOST_host, HOST_STATE_pipe, 40},
                                   {HOST_host, HOST_STATE_running, 30},
                                   {HOST_wait, HOST_STATE_poll, 30}});
    times.gaps.by_drain[HOST_DRAIN_none] = conclusion_gap_of(HOST_STATE_pipe, 40);
    CHECK(key_of(conclude(times, 100)->limit) == "data");
    CHECK(conclude(times, 100)->starved == 0);
    times.gaps.by_drain[HOST_DRAIN_device] = conclusion_gap_of(HOST_STATE_running, 30);
    const auto device = conclude(times, 100);
    CHECK(key_of(device->limit) == "host");
    CHECK(is_near(device->share, 0.3));
    CHECK(sentence_of(*device) ==
          "Host code is the limit: the launching thread ran outside CUDA calls 30 % of the time. "
          "The host kept the GPU waiting at least 30 % of the time, mostly in the state running.");
    // Twice as long as the GPU waited for all of the host together.
    ProcessTimes two = times_of({{HOST_host, HOST_STATE_pipe, 40},
                                 {HOST_host, HOST_STATE_running, 12},
                                 {HOST_wait, HOST_STATE_poll, 48}});
    two.gaps.by_drain[HOST_DRAIN_device] = conclusion_gap_of(HOST_STATE_running, 12);
    two.gaps.by_drain[HOST_DRAIN_stream] = conclusion_gap_of(HOST_STATE_pipe, 12);
    CHECK(key_of(conclude(two, 100)->limit) == "gpu");
    two.gaps.by_drain[HOST_DRAIN_stream] = conclusion_gap_of(HOST_STATE_pipe, 13);
    CHECK(key_of(conclude(two, 100)->limit) == "data");
    // Of a stream, too.
    times.gaps.by_drain[HOST_DRAIN_stream] =
        std::exchange(times.gaps.by_drain[HOST_DRAIN_device], {});
    CHECK(key_of(conclude(times, 100)->limit) == "host");
    CHECK_THAT(sentence_of(*conclude(times, 100)),
               ContainsSubstring("kept the GPU or a stream waiting at least 30 %"));
}

TEST_CASE("allocations and other calls in the gaps are told apart by the time in them") {
    for (const auto &[phase, key] :
         {std::pair(HOST_memory, "memory_calls"), std::pair(HOST_other, "cuda_calls")}) {
        ProcessTimes times =
            times_of({{HOST_host, HOST_STATE_running, 45}, {phase, HOST_STATE_running, 55}});
        times.gaps.by_drain[HOST_DRAIN_device] = conclusion_gap_of(HOST_GAP_CUDA_CALL, 50);
        const auto conclusion = conclude(times, 100);
        CHECK(key_of(conclusion->limit) == key);
        CHECK_THAT(
            sentence_of(*conclusion),
            ContainsSubstring("waiting at least 50 % of the time, mostly in the state cuda_call."));
    }
}

TEST_CASE("launches are the limit, whatever little the gaps say") {
    ProcessTimes times = times_of({{HOST_launch, HOST_STATE_running, 60},
                                   {HOST_host, HOST_STATE_pipe, 20},
                                   {HOST_wait, HOST_STATE_running, 20}});
    times.gaps.by_drain[HOST_DRAIN_device] = conclusion_gap_of(HOST_STATE_pipe, 20);
    CHECK(key_of(conclude(times, 100)->limit) == "launches");
}

TEST_CASE("short gaps count as what the threads did outside of the explained ones") {
    // Launches have more time than each cause in the half of the gaps that is explained.
    ProcessTimes half = times_of({{HOST_wait, HOST_STATE_running, 26},
                                  {HOST_host, HOST_STATE_running, 25},
                                  {HOST_host, HOST_STATE_runnable, 13},
                                  {HOST_launch, HOST_STATE_runnable, 3},
                                  {HOST_wait, HOST_STATE_runnable, 7},
                                  {HOST_launch, HOST_STATE_running, 12},
                                  {HOST_host, HOST_STATE_pipe, 8},
                                  {HOST_other, HOST_STATE_running, 6}});
    GapTimes::Sum &half_gaps = half.gaps.by_drain[HOST_DRAIN_device];
    half_gaps = {.gaps = 1'000, .ns = 50};
    half_gaps.state_ns[HOST_STATE_running] = 8;
    half_gaps.state_ns[HOST_STATE_runnable] = 11;
    half_gaps.state_ns[HOST_STATE_pipe] = 5;
    half_gaps.state_ns[HOST_GAP_CUDA_CALL] = 2;
    const auto of_half = conclude(half, 100);
    CHECK(key_of(of_half->limit) == "host");
    CHECK(of_half->starved_state == HOST_STATE_running);
    // Most of what is explained, a quarter, had no CPU.
    ProcessTimes quarter = times_of({{HOST_wait, HOST_STATE_running, 7},
                                     {HOST_host, HOST_STATE_running, 47},
                                     {HOST_host, HOST_STATE_runnable, 30},
                                     {HOST_launch, HOST_STATE_runnable, 4},
                                     {HOST_wait, HOST_STATE_runnable, 4},
                                     {HOST_launch, HOST_STATE_running, 8}});
    GapTimes::Sum &quarter_gaps = quarter.gaps.by_drain[HOST_DRAIN_device];
    quarter_gaps = {.gaps = 10'000, .ns = 70};
    quarter_gaps.state_ns[HOST_STATE_running] = 3;
    quarter_gaps.state_ns[HOST_STATE_runnable] = 15;
    CHECK(key_of(conclude(quarter, 100)->limit) == "host");
    // What is explained of gaps in which the GPU was busy is not in the short ones.
    ProcessTimes ahead = times_of({{HOST_host, HOST_STATE_pipe, 45},
                                   {HOST_host, HOST_STATE_running, 35},
                                   {HOST_wait, HOST_STATE_running, 20}});
    ahead.gaps.by_drain[HOST_DRAIN_none] = conclusion_gap_of(HOST_STATE_pipe, 45);
    ahead.gaps.by_drain[HOST_DRAIN_device] = {.gaps = 1'000, .ns = 35};
    CHECK(key_of(conclude(ahead, 100)->limit) == "host");
    // A launch without a CPU is late, too.
    ProcessTimes late = times_of({{HOST_launch, HOST_STATE_runnable, 40},
                                  {HOST_host, HOST_STATE_running, 35},
                                  {HOST_wait, HOST_STATE_running, 25}});
    late.gaps.by_drain[HOST_DRAIN_device] = conclusion_gap_of(HOST_STATE_running, 35);
    CHECK(key_of(conclude(late, 100)->limit) == "no_cpu");
}

TEST_CASE("a small part of the time in which the GPU certainly waited contradicts no limit") {
    ProcessTimes times = times_of({{HOST_host, HOST_STATE_running, 70},
                                   {HOST_launch, HOST_STATE_running, 28},
                                   {HOST_wait, HOST_STATE_running, 2}});
    times.gaps.by_drain[HOST_DRAIN_stream] = {.gaps = 9, .ns = 4};
    CHECK(sentence_of(*conclude(times, 100)) ==
          "Host code is the limit: the launching thread ran outside CUDA calls 70 % of the time. "
          "The host kept the GPU or a stream waiting at least 4 % of the time; other idle time of "
          "the GPU is not seen.");
    ProcessTimes waits =
        times_of({{HOST_wait, HOST_STATE_running, 90}, {HOST_host, HOST_STATE_running, 10}});
    waits.gaps.by_drain[HOST_DRAIN_device] = {.gaps = 9, .ns = 4};
    CHECK(sentence_of(*conclude(waits, 100)).ends_with(" waiting at least 4 % of the time."));
}

TEST_CASE("gaps of which little is explained change no conclusion") {
    ProcessTimes times =
        times_of({{HOST_host, HOST_STATE_pipe, 60}, {HOST_host, HOST_STATE_running, 40}});
    times.gaps.by_drain[HOST_DRAIN_device] = conclusion_gap_of(HOST_STATE_running, 9);
    CHECK(key_of(conclude(times, 100)->limit) == "data");
    times.gaps.by_drain[HOST_DRAIN_device] = {.gaps = 90, .ns = 40};
    const auto unexplained = conclude(times, 100);
    CHECK(key_of(unexplained->limit) == "data");
    CHECK(is_near(unexplained->starved, 0.4));
    CHECK(sentence_of(*unexplained)
              .ends_with(" The host kept the GPU waiting at least 40 % of the time."));
}

TEST_CASE("what of a gap was before the times began is left out") {
    ProcessTimes times = times_of({{HOST_host, HOST_STATE_poll, 15},
                                   {HOST_launch, HOST_STATE_running, 25},
                                   {HOST_host, HOST_STATE_running, 60}});
    times.gaps.by_drain[HOST_DRAIN_device] = conclusion_gap_of(HOST_STATE_poll, 1'000);
    times.gaps.by_drain[HOST_DRAIN_device].state_ns[HOST_GAP_CUDA_CALL] = 10;
    times.gaps.by_drain[HOST_DRAIN_device].ns += 10;
    const auto conclusion = conclude(times, 100);
    CHECK(key_of(conclusion->limit) == "launches");
    CHECK(is_near(conclusion->starved, 0.25));
    CHECK(conclusion->starved_state == HOST_STATE_poll);
}

TEST_CASE("a program that launches nothing and is blocked is idle") {
    for (const std::uint32_t state : {HOST_STATE_poll, HOST_STATE_socket, HOST_STATE_pipe,
                                      HOST_STATE_futex, HOST_STATE_sleep, HOST_STATE_other}) {
        const ProcessTimes times =
            times_of({{HOST_host, state, 95}, {HOST_host, HOST_STATE_running, 5}});
        const auto conclusion = conclude(times, 100);
        CHECK(key_of(conclusion->limit) == "idle");
        CHECK(conclusion->state == state);
        CHECK_THAT(sentence_of(*conclusion), ContainsSubstring("it launched nothing"));
        ProcessTimes launched = times;
        launched.gaps.by_drain[HOST_DRAIN_none].gaps = 1;
        CHECK(key_of(conclude(launched, 100)->limit) != "idle");
        launched = times;
        launched.cells.ns[HOST_launch][HOST_STATE_running] = 1;  // its first launch
        CHECK(key_of(conclude(launched, 100)->limit) != "idle");
    }
    // What hinders a program from launching is said, also if it launches nothing.
    for (const auto &[state, key] :
         {std::pair(HOST_STATE_throttled, "throttled"), std::pair(HOST_STATE_file, "file"),
          std::pair(HOST_STATE_running, "host"), std::pair(HOST_STATE_stopped, "stopped")}) {
        CHECK(key_of(conclude(times_of({{HOST_host, state, 100}}), 100)->limit) == key);
    }
    CHECK(key_of(conclude(times_of({{HOST_wait, HOST_STATE_poll, 100}}), 100)->limit) == "gpu");
}

TEST_CASE("a call that takes all of the time hangs if nothing was launched meanwhile") {
    constexpr std::uint64_t second = 1'000'000'000;
    const auto times_in = [](std::uint32_t phase, std::uint64_t age) {
        ProcessTimes times = times_of({{phase, HOST_STATE_running, 10 * second}});
        times.call = {.function = "cudaDeviceSynchronize", .age_ns = age};
        return times;
    };
    const auto conclusion = conclude(times_in(HOST_wait, 38 * second), 10 * second);
    CHECK(key_of(conclusion->limit) == "hangs");
    CHECK(is_near(conclusion->share, 1));
    CHECK(sentence_of(*conclusion) ==
          "The program hangs: the launching thread has been in cudaDeviceSynchronize for 38.0s, "
          "and the program has launched nothing since.");
    CHECK_THAT(std::string(advice_of(conclusion->limit)),
               ContainsSubstring("gpusnoop_exporter trace --in-flight"));
    // In any call, also in a launch.
    for (const std::uint32_t phase : {HOST_launch, HOST_copy, HOST_memory, HOST_other}) {
        CHECK(key_of(conclude(times_in(phase, 38 * second), 10 * second)->limit) == "hangs");
    }
    // The call began in between, or it is young.
    CHECK(key_of(conclude(times_in(HOST_wait, 9 * second), 10 * second)->limit) == "gpu");
    CHECK(key_of(conclude(times_in(HOST_wait, 4 * second), second)->limit) == "gpu");
    CHECK(key_of(conclude(times_in(HOST_wait, 5 * second), second)->limit) == "hangs");
    // Another thread launches, and the first one has returned.
    ProcessTimes launched = times_in(HOST_wait, 38 * second);
    launched.gaps.by_drain[HOST_DRAIN_none].gaps = 1;
    CHECK(key_of(conclude(launched, 10 * second)->limit) == "gpu");
    ProcessTimes returned = times_in(HOST_wait, 38 * second);
    returned.call.reset();
    CHECK(key_of(conclude(returned, 10 * second)->limit) == "gpu");
    // The other thread's launches are not observed: they end no gap, and their time is estimated.
    ProcessTimes paused = times_in(HOST_wait, 38 * second);
    paused.cells.ns[HOST_launch][HOST_STATE_running] = second / 2;
    paused.cells.ns[HOST_host][HOST_STATE_running] = 10 * second - second / 2;
    CHECK(key_of(conclude(paused, 10 * second)->limit) != "hangs");
    paused.cells.ns[HOST_launch][HOST_STATE_running] = second / 1'000;  // of before the hang
    CHECK(key_of(conclude(paused, 10 * second)->limit) == "hangs");
}
