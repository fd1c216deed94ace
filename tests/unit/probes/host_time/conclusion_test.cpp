#include "exporter/probes/host_time/conclusion.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace gpusnoop::probes;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Spent {
    std::uint32_t phase;
    std::uint32_t state;
    std::uint64_t ns;
};

HostCells cells_of(std::initializer_list<Spent> all) {
    HostCells cells;
    for (const auto &[phase, state, ns] : all) {
        cells.ns[phase][state] += ns;
    }
    return cells;
}

// Of one thread.
Conclusion conclusion_of(std::initializer_list<Spent> all) {
    const HostCells cells = cells_of(all);
    return *conclude(cells, cells.wall_ns());
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
             {"gpu", {HOST_wait, HOST_STATE_running, 70}, "The GPU is the limit", "faster"},
             {"gpu", {HOST_wait, HOST_STATE_poll, 70}, "waited for it 70 % of the time", ""},
             {"data", {HOST_host, HOST_STATE_pipe, 70}, "in the state pipe, 70 %", "data loader"},
             {"data", {HOST_host, HOST_STATE_socket, 70}, "in the state socket", "data loader"},
             {"data", {HOST_host, HOST_STATE_poll, 70}, "in the state poll", "requests"},
             {"throttled",
              {HOST_host, HOST_STATE_throttled, 70},
              "CPU limit of its cgroup",
              "Raise the CPU limit"},
             {"no_cpu", {HOST_launch, HOST_STATE_runnable, 70}, "had no CPU, 70 %", "neighbours"},
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
              "ran outside of CUDA calls 70 %",
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
        const std::string sentence = sentence_of({.limit = limit, .share = 0.5});
        CAPTURE(sentence);
        CHECK_THAT(sentence, ContainsSubstring("50 % of the time"));
        CHECK(sentence.ends_with("."));
        CHECK(advice_of(limit).ends_with("."));
        CHECK(sentence.find('{') == std::string::npos);
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
    const HostCells cells = cells_of({{HOST_host, HOST_STATE_running, 80},
                                      {HOST_wait, HOST_STATE_running, 20},
                                      {HOST_host, HOST_STATE_futex, 100}});
    const auto two = conclude(cells, 100);
    REQUIRE(two);
    CHECK(key_of(two->limit) == "host");
    CHECK(is_near(two->share, 0.8));
    CHECK(two->idle_ns == 100);
    // Of one thread it is.
    const auto one = conclude(cells, 200);
    CHECK(key_of(one->limit) == "lock");
    CHECK(one->idle_ns == 0);
    // Both wait for a third that launches nothing.
    const auto both = conclude(
        cells_of({{HOST_host, HOST_STATE_running, 40}, {HOST_host, HOST_STATE_futex, 160}}), 100);
    CHECK(key_of(both->limit) == "lock");
    CHECK(is_near(both->share, 0.6));
    // Threads that work at the same time wait for nobody.
    const auto parallel = conclude(
        cells_of({{HOST_host, HOST_STATE_running, 190}, {HOST_host, HOST_STATE_futex, 10}}), 100);
    CHECK(parallel->idle_ns == 10);
    CHECK(is_near(parallel->share, 1));
}

TEST_CASE("without any time there is no conclusion") {
    CHECK_FALSE(conclude(HostCells(), 100));
    CHECK_FALSE(conclude(cells_of({{HOST_host, HOST_STATE_futex, 100}}), 0));
}
