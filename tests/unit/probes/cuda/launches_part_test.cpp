// Launches, without the other parts of the aggregator.
#include <catch2/catch_test_macros.hpp>

#include "exporter/probes/cuda/launches/launches.h"
#include "tests/unit/probes/cuda/part_fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

struct LaunchesFixture : PartFixture {
    std::vector<symbols::CudaKernelRequest> asked;
    CudaLaunches launches{families, processes, callbacks, 0s};

    LaunchesFixture() : PartFixture(CudaLaunches::started) {
        callbacks.ask_for_kernel = [this](auto request) { asked.push_back(request); };
    }
    [[nodiscard]] std::uint64_t count(const std::vector<std::string> &labels = {}) const {
        return sum("cuda_kernel_launches_total", labels);
    }
};

}  // namespace

TEST_CASE("the part of launches counts them by itself, each under its process and kernel") {
    LaunchesFixture bench;
    bench.launches.on_name(bench.process(), named(0x10, "gemm"));
    bench.launches.on_launch(bench.process(), launch(0x10, 7));
    bench.launches.on_launch(bench.process(), launch(0x10, 7));
    bench.launches.on_name(bench.process(43), named(0x10, "reduce"));
    bench.launches.on_launch(bench.process(43), launch(0x10, 7));
    CHECK(bench.asked.empty());
    CHECK(bench.count() == 3);
    CHECK(bench.count({"gemm", "7x1x1", "32x2x1", "0"}) == 2);
    CHECK(bench.count({"reduce"}) == 1);
    CHECK(bench.page("cuda_memory_allocations_total").empty());
}

TEST_CASE("the part of launches asks for a name once, and counts what waited when it is told to") {
    LaunchesFixture bench;
    bench.launches.on_launch(bench.process(), launch(0x10, 7));
    bench.launches.on_launch(bench.process(), launch(0x10, 8));
    REQUIRE(bench.asked.size() == 1);
    bench.launches.on_kernel_name({bench.asked[0].ticket, "gemm"});
    bench.launches.on_kernel_name({12'345, "of nobody"});
    CHECK(bench.count() == 0);
    bench.launches.count_named();
    CHECK(bench.count({"gemm"}) == 2);
}

TEST_CASE("the part of launches counts the time in which they were not seen") {
    LaunchesFixture bench;
    std::chrono::nanoseconds unseen{};
    bench.callbacks.unseen_of = [&](const ProcessKey &) { return Unseen{unseen, 0}; };
    bench.launches.note_unseen(bench.process());
    CHECK(bench.page("cuda_launches_unobserved_seconds_total").empty());
    unseen = 2s;
    bench.launches.note_unseen(bench.process());
    bench.launches.note_unseen(bench.process());
    CHECK(bench.sum("cuda_launches_unobserved_seconds_total", {}) == 2'000'000'000);
    unseen = 1s;  // the governor has forgotten it
    bench.launches.note_unseen(bench.process());
    CHECK(bench.sum("cuda_launches_unobserved_seconds_total", {}) == 2'000'000'000);
    unseen = 3s;
    bench.launches.note_unseen(bench.process());
    CHECK(bench.sum("cuda_launches_unobserved_seconds_total", {}) == 3'000'000'000);
}

TEST_CASE("estimated launches are of the devices on which the process launched, in proportion") {
    LaunchesFixture bench;
    std::uint64_t unseen = 0;
    bench.callbacks.unseen_of = [&](const ProcessKey &) { return Unseen{1s, unseen}; };
    const auto counted = [&](std::int32_t device, std::uint64_t launches) {
        const cuda_launch_key key{bench.process().key.since_ns,
                                  0x10,
                                  bench.process().key.tgid,
                                  device,
                                  {1, 1, 1},
                                  {1, 1, 1},
                                  0};
        bench.launches.on_counted(bench.process(), key, {launches, 1});
    };
    counted(0, 3);
    counted(1, 1);
    unseen = 1'000;
    bench.launches.note_unseen(bench.process());
    CHECK(bench.sum("cuda_launches_unobserved_total", {"0"}) == 750);
    CHECK(bench.sum("cuda_launches_unobserved_total", {"1"}) == 250);
    unseen = 1'001;
    bench.launches.note_unseen(bench.process());
    CHECK(bench.sum("cuda_launches_unobserved_total", {}) == 1'001);
}

TEST_CASE("the part of launches needs a process until the names that it waits for have come") {
    LaunchesFixture bench;
    Process &process = bench.process();
    CHECK(CudaLaunches::is_done_with(process));
    bench.launches.on_launch(process, launch(0x10, 7));
    CHECK_FALSE(CudaLaunches::is_done_with(process));
    SECTION("or were given up") {
        bench.launches.tidy(1s);
        bench.launches.tidy(10s);
        CHECK_FALSE(CudaLaunches::is_done_with(process));
        bench.launches.tidy(11s);
        CHECK(CudaLaunches::is_done_with(process));
        CHECK(bench.count({"unknown"}) == 1);
    }
    SECTION("or were given up, later of a process that has ended") {
        process.ended = 2s;
        bench.launches.tidy(2s);
        bench.launches.tidy(31s);
        CHECK_FALSE(CudaLaunches::is_done_with(process));
        bench.launches.tidy(32s);
        CHECK(CudaLaunches::is_done_with(process));
        CHECK(bench.count({"unknown"}) == 1);
    }
    SECTION("which is at once for what is in the ring") {
        bench.launches.on_kernel_name({bench.asked.at(0).ticket, "gemm"});
        CHECK(CudaLaunches::is_done_with(process));
        bench.launches.tidy(1s);
        CHECK(bench.count({"gemm"}) == 1);
    }
}

TEST_CASE("the part of launches counts under a name that comes late what follows") {
    LaunchesFixture bench;
    bench.launches.on_launch(bench.process(), launch(0x10, 7));
    bench.launches.tidy(1s);
    bench.launches.tidy(11s);
    bench.launches.on_launch(bench.process(), launch(0x10, 7));
    CHECK(bench.count({"unknown"}) == 2);
    SECTION("to the first request") {
        REQUIRE(bench.asked.size() == 1);
    }
    SECTION("or to another, after the first had no answer") {
        bench.launches.on_kernel_name({bench.asked.at(0).ticket, ""});
        bench.launches.tidy(12s);
        bench.launches.tidy(131s);
        CHECK(bench.asked.size() == 1);
        bench.launches.tidy(132s);
        REQUIRE(bench.asked.size() == 2);
        CHECK(bench.asked[1].address == 0x10);
    }
    bench.launches.on_kernel_name({bench.asked.back().ticket, "gemm"});
    bench.launches.count_named();
    bench.launches.on_launch(bench.process(), launch(0x10, 7));
    bench.launches.on_launch(bench.process(), launch(0x10, 8));
    CHECK(bench.count({"unknown"}) == 2);
    CHECK(bench.count({"gemm"}) == 2);
}

TEST_CASE("the part of launches reads the answers before it gives a name up") {
    LaunchesFixture bench;
    bench.launches.tidy(1s);
    bench.launches.on_launch(bench.process(), launch(0x10, 7));
    bench.launches.tidy(60s);  // the thread had no CPU meanwhile
    bench.launches.on_kernel_name({bench.asked.at(0).ticket, "gemm"});
    bench.launches.tidy(61s);
    CHECK(bench.count({"gemm"}) == 1);
    CHECK(bench.count({"unknown"}) == 0);
}

TEST_CASE("the part of launches looks into the ring before it asks for a name") {
    LaunchesFixture bench;
    Process &process = bench.process();
    bench.callbacks.catch_up = [&] { bench.launches.on_name(process, named(0x10, "gemm")); };
    bench.launches.on_launch(process, launch(0x10, 7));
    CHECK(bench.asked.empty());
    CHECK(bench.count({"gemm"}) == 1);
}

TEST_CASE("the part of launches counts those by graphs apart, also while they wait for a name") {
    LaunchesFixture bench;
    const LaunchShape shape{0x10, 0, {7, 1, 1}, {32, 2, 1}};
    bench.launches.on_launch(bench.process(), launch(0x10, 7));
    bench.launches.add_by_graph(bench.process(), shape, 5, 2'000);
    REQUIRE(bench.asked.size() == 1);
    bench.launches.on_kernel_name({bench.asked[0].ticket, "gemm"});
    bench.launches.count_named();
    bench.launches.add_by_graph(bench.process(), shape, 2, 3'000);
    CHECK(bench.page("cuda_kernel_launches_total") ==
          Page{{{"python", "", "", "", "gemm", "7x1x1", "32x2x1", "stream", "0"}, 1},
               {{"python", "", "", "", "gemm", "7x1x1", "32x2x1", "graph", "0"}, 7}});
}
