// The calls of several probes, each call once.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/in_flight/calls.h"
#include "tests/unit/probes/in_flight/fixture.h"

using namespace gpusnoop::probes;
using namespace gpusnoop;
using namespace std::chrono_literals;

namespace {

// As the CUDA probe knows it.
OpenCall of_cuda(const std::string &function, std::uint32_t tid, std::uint64_t began_ns) {
    OpenCall call = call_in_flight(function, tid, began_ns);
    call.library = "libcudart";
    call.is_file_known = false;
    call.gpu = "3";
    call.arguments = {{2, 4096}};
    return call;
}

}  // namespace

TEST_CASE("a call that two probes follow is one call, with what either knows") {
    OpenCalls all;
    join(all, {{of_cuda("cudaMalloc", 7, 100), of_cuda("cudaFree", 8, 200)},
               {thread_in(7, 100), thread_in(8, 200)}});
    OpenCall other = call_in_flight("cudaMalloc", 7, 103);
    other.returns_to = 0x55;
    join(all, {{other, call_in_flight("outer", 7, 90, 0x2000)}, {thread_in(7, 103)}});
    REQUIRE(all.calls.size() == 3);
    const OpenCall &both = all.calls[0];
    CHECK(both.library == "libcudart.so.12");
    CHECK(both.is_file_known);
    CHECK(both.gpu == "3");
    CHECK(both.arguments == std::vector<std::pair<std::uint8_t, std::uint64_t>>{{2, 4096}});
    CHECK(both.returns_to == 0x55);
    CHECK(all.calls[1].library == "libcudart");
    CHECK(all.calls[2].function == "outer");
    // The thread's record names the call by the start that is shown.
    REQUIRE(all.threads.size() == 2);
    CHECK(all.threads[0].call_started_ns == both.began_ns);
    CHECK(all.threads[1].call_started_ns == 200);
}

TEST_CASE("the order of the probes does not matter") {
    OpenCalls all;
    join(all, {{call_in_flight("cudaMalloc", 7, 103)}, {thread_in(7, 103)}});
    join(all, {{of_cuda("cudaMalloc", 7, 100)}, {thread_in(7, 100)}});
    REQUIRE(all.calls.size() == 1);
    CHECK(all.calls[0].library == "libcudart.so.12");
    CHECK(all.calls[0].gpu == "3");
    REQUIRE(all.threads.size() == 1);
    CHECK(all.threads[0].call_started_ns == all.calls[0].began_ns);
}

TEST_CASE("calls of several threads at the same place of their stacks stay apart") {
    OpenCalls all;
    join(all, {{of_cuda("cudaMalloc", 7, 100)}, {}});
    join(all, {{call_in_flight("cudaMalloc", 8, 100)}, {}});
    CHECK(all.calls.size() == 2);
}

TEST_CASE("the oldest call comes first") {
    std::vector<OpenCall> calls = {call_in_flight("young", 1, 30), call_in_flight("old", 2, 10),
                                   call_in_flight("middle", 3, 20)};
    sort_by_age(calls);
    CHECK(calls[0].function == "old");
    CHECK(calls[1].function == "middle");
    CHECK(calls[2].function == "young");
}

// The block `in_flight:` of the configuration.

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
