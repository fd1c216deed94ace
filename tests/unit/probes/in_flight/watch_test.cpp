// Stacks of hanging calls, which the exporter keeps to show them after the threads have ended.
#include "exporter/probes/in_flight/watch.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <thread>

#include "exporter/probes/in_flight/calls.h"
#include "tests/unit/probes/in_flight/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

constexpr std::uint64_t watch_second_ns = 1'000'000'000;

std::map<std::uint32_t, BlockedThread> stacks_of_threads(const OpenCalls &open) {
    std::map<std::uint32_t, BlockedThread> threads;
    for (const OpenCall &call : open.calls) {
        threads[call.tid].stack = {{call.function, call.library, 4},
                                   {"train.py:step:42", "train.py", 0}};
        threads[call.tid].site = "train.py:step:" + std::to_string(call.tid);
    }
    return threads;
}

void wait_until_known(const InFlightWatch &watch, const OpenCall &call) {
    for (int tries = 0; tries < 10'000 && watch.stack_of(call).empty(); tries++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace

TEST_CASE("a call that somebody has looked at has a stack when its thread has ended") {
    InFlightWatch watch(stacks_of_threads);
    OpenCalls open;
    open.calls = {call_in_flight("cudaMalloc", 7, 10), call_in_flight("cudaFree", 8, 20)};
    CHECK(watch.stack_of(open.calls[0]).empty());
    CHECK(watch.of(open).size() == 2);
    CHECK(watch.stack_of(open.calls[0]) == "cudaMalloc < train.py:step:42");
    CHECK(watch.stack_of(open.calls[1]) == "cudaFree < train.py:step:42");
    CHECK(watch.site_of(open.calls[0]) == "train.py:step:7");
    CHECK(watch.site_of(call_in_flight("cudaMalloc", 7, 11)).empty());
    CHECK(watch.stack_of(call_in_flight("cudaMalloc", 7, 11)).empty());
    // Its end may be reported later than a page is made.
    CHECK_FALSE(watch.keep_only({open.calls[1]}, 30));
    CHECK_FALSE(watch.stack_of(open.calls[0]).empty());
    CHECK_FALSE(watch.keep_only({open.calls[1]}, 30));
    CHECK(watch.stack_of(open.calls[0]).empty());
    CHECK_FALSE(watch.stack_of(open.calls[1]).empty());
}

TEST_CASE("a call that hangs for long is looked at once, though nobody asks") {
    std::atomic<int> looks = 0;
    InFlightWatch watch([&](const OpenCalls &open) {
        looks++;
        return stacks_of_threads(open);
    });
    OpenCalls open;
    open.calls = {call_in_flight("cudaMalloc", 7, watch_second_ns),
                  call_in_flight("cudaFree", 8, 2 * watch_second_ns)};
    CHECK_FALSE(watch.keep_only(open.calls, 5 * watch_second_ns));
    REQUIRE(watch.keep_only(open.calls, 6 * watch_second_ns));
    watch.look_at(open, 6 * watch_second_ns);
    wait_until_known(watch, open.calls[0]);
    CHECK(watch.stack_of(open.calls[0]) == "cudaMalloc < train.py:step:42");
    CHECK(watch.stack_of(open.calls[1]).empty());
    CHECK_FALSE(watch.keep_only(open.calls, 6 * watch_second_ns));
    CHECK(looks == 1);
}

TEST_CASE("of many calls that hang, some are looked at in each round, the oldest first") {
    InFlightWatch watch(stacks_of_threads);
    OpenCalls open;
    for (std::uint32_t i = 0; i < 2 * InFlightWatch::max_looks; i++) {
        open.calls.push_back(call_in_flight("cudaMalloc", 100 + i, i + 1));
    }
    const std::uint64_t now_ns = 100 * watch_second_ns;
    REQUIRE(watch.keep_only(open.calls, now_ns));
    watch.look_at(open, now_ns);
    wait_until_known(watch, open.calls[InFlightWatch::max_looks - 1]);
    CHECK_FALSE(watch.stack_of(open.calls[InFlightWatch::max_looks - 1]).empty());
    CHECK(watch.stack_of(open.calls[InFlightWatch::max_looks]).empty());
    CHECK(watch.keep_only(open.calls, now_ns));
}

TEST_CASE("no more than so many calls are remembered") {
    InFlightWatch watch(stacks_of_threads);
    OpenCalls open;
    for (std::uint32_t i = 0; i <= InFlightWatch::max_known; i++) {
        open.calls.push_back(call_in_flight("cudaMalloc", 100 + i, i + 1));
    }
    (void)watch.of(open);
    CHECK_FALSE(watch.stack_of(open.calls[InFlightWatch::max_known - 1]).empty());
    CHECK(watch.stack_of(open.calls[InFlightWatch::max_known]).empty());
    CHECK_FALSE(watch.keep_only(open.calls, 100 * watch_second_ns));
}
