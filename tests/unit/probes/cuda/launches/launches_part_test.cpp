// Launches, without the other parts of the aggregator.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exporter/probes/cuda/launches/launches.h"
#include "tests/unit/probes/cuda/part_fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

struct LaunchesFixture : PartFixture {
    std::vector<symbols::CudaKernelRequest> asked;
    CudaLaunches launches;

    explicit LaunchesFixture(const UserRoom::Limits &limits = room_for_launches)
        : PartFixture(CudaLaunches::started), launches(families, processes, callbacks, 0s, limits) {
        callbacks.ask_for_kernel = [this](auto request) { asked.push_back(request); };
    }
    [[nodiscard]] std::uint64_t count(const std::vector<std::string> &labels = {}) const {
        return sum("cuda_kernel_launches_total", labels);
    }
};

}  // namespace

TEST_CASE("the part of launches counts them by itself, each under its process and kernel") {
    LaunchesFixture fixture;
    fixture.launches.on_name(fixture.process(), named(0x10, "gemm"));
    fixture.launches.on_launch(fixture.process(), launch(0x10, 7));
    fixture.launches.on_launch(fixture.process(), launch(0x10, 7));
    fixture.launches.on_name(fixture.process(43), named(0x10, "reduce"));
    fixture.launches.on_launch(fixture.process(43), launch(0x10, 7));
    CHECK(fixture.asked.empty());
    CHECK(fixture.count() == 3);
    CHECK(fixture.count({"gemm", "7x1x1", "32x2x1", "0"}) == 2);
    CHECK(fixture.count({"reduce"}) == 1);
    CHECK(fixture.page("cuda_memory_allocations_total").empty());
}

TEST_CASE("the part of launches asks for a name once, and counts what waited when it is told to") {
    LaunchesFixture fixture;
    fixture.launches.on_launch(fixture.process(), launch(0x10, 7));
    fixture.launches.on_launch(fixture.process(), launch(0x10, 8));
    REQUIRE(fixture.asked.size() == 1);
    fixture.launches.on_kernel_name({fixture.asked[0].ticket, "gemm"});
    fixture.launches.on_kernel_name({12'345, "of nobody"});
    CHECK(fixture.count() == 0);
    fixture.launches.count_named();
    CHECK(fixture.count({"gemm"}) == 2);
}

TEST_CASE("the part of launches counts the time in which they were not seen") {
    LaunchesFixture fixture;
    std::chrono::nanoseconds unseen{};
    fixture.callbacks.unseen_of = [&](const ProcessKey &) { return Unseen{unseen, 0}; };
    fixture.launches.note_unseen(fixture.process());
    CHECK(fixture.page("cuda_launches_unobserved_seconds_total").empty());
    unseen = 2s;
    fixture.launches.note_unseen(fixture.process());
    fixture.launches.note_unseen(fixture.process());
    CHECK(fixture.sum("cuda_launches_unobserved_seconds_total", {}) == 2'000'000'000);
    unseen = 1s;  // the governor has forgotten it
    fixture.launches.note_unseen(fixture.process());
    CHECK(fixture.sum("cuda_launches_unobserved_seconds_total", {}) == 2'000'000'000);
    unseen = 3s;
    fixture.launches.note_unseen(fixture.process());
    CHECK(fixture.sum("cuda_launches_unobserved_seconds_total", {}) == 3'000'000'000);
}

TEST_CASE("estimated launches are of the devices on which the process launched, in proportion") {
    LaunchesFixture fixture;
    std::uint64_t unseen = 0;
    fixture.callbacks.unseen_of = [&](const ProcessKey &) { return Unseen{1s, unseen}; };
    const auto counted = [&](std::int32_t device, std::uint64_t launches) {
        const cuda_launch_key key{fixture.process().key.since_ns,
                                  0x10,
                                  fixture.process().key.tgid,
                                  device,
                                  {1, 1, 1},
                                  {1, 1, 1},
                                  0};
        fixture.launches.on_counted(fixture.process(), key, {launches, 1});
    };
    counted(0, 3);
    counted(1, 1);
    unseen = 1'000;
    fixture.launches.note_unseen(fixture.process());
    CHECK(fixture.sum("cuda_launches_unobserved_total", {"0"}) == 750);
    CHECK(fixture.sum("cuda_launches_unobserved_total", {"1"}) == 250);
    unseen = 1'001;
    fixture.launches.note_unseen(fixture.process());
    CHECK(fixture.sum("cuda_launches_unobserved_total", {}) == 1'001);
}

TEST_CASE("what a running process loses is on the page once it is known") {
    LaunchesFixture fixture;
    std::optional<LossFactor> loss;
    fixture.callbacks.unseen_of = [&](const ProcessKey &) { return Unseen{.loss = loss}; };
    const auto factor = [&](const std::string &bound) {
        series::FamilySet gauges([](std::string_view) { return 2'000U; }, true);
        fixture.launches.note_unseen(fixture.process());
        CudaLaunches::add_gauges(gauges, fixture.processes);
        const Page page = page_of(gauges.snapshots(), "cuda_launch_loss_factor");
        return page.empty() ? 0 : sum_of(page, {bound});
    };
    CHECK(factor("estimate") == 0);
    loss = {2.5, 3};
    CHECK(factor("estimate") == 2'500);
    CHECK(factor("lower") == 0);
    CHECK(factor("upper") == 5'500);
    fixture.process().ended = 1s;
    CHECK(factor("estimate") == 0);
}

TEST_CASE("the bounds of estimated launches are counted once the process has launched") {
    LaunchesFixture fixture;
    Unseen unseen{1s, 1'000, 900, 1'200};
    fixture.callbacks.unseen_of = [&](const ProcessKey &) { return unseen; };
    fixture.launches.note_unseen(fixture.process());
    CHECK(fixture.page("cuda_launches_unobserved_bound_total").empty());
    const cuda_launch_key key{fixture.process().key.since_ns,
                              0x10,
                              fixture.process().key.tgid,
                              0,
                              {1, 1, 1},
                              {1, 1, 1},
                              0};
    fixture.launches.on_counted(fixture.process(), key, {1, 1});
    fixture.launches.note_unseen(fixture.process());
    fixture.launches.note_unseen(fixture.process());
    CHECK(fixture.sum("cuda_launches_unobserved_bound_total", {"lower"}) == 900);
    CHECK(fixture.sum("cuda_launches_unobserved_bound_total", {"upper"}) == 1'200);
    unseen = {1s, 1'000, 100, 1'201};  // the governor has forgotten the process, or not
    fixture.launches.note_unseen(fixture.process());
    CHECK(fixture.sum("cuda_launches_unobserved_bound_total", {"lower"}) == 900);
    CHECK(fixture.sum("cuda_launches_unobserved_bound_total", {"upper"}) == 1'201);
}

TEST_CASE("the part of launches needs a process until the names that it waits for have come") {
    LaunchesFixture fixture;
    Process &process = fixture.process();
    CHECK(CudaLaunches::is_done_with(process));
    fixture.launches.on_launch(process, launch(0x10, 7));
    CHECK_FALSE(CudaLaunches::is_done_with(process));
    SECTION("or were given up") {
        fixture.launches.tidy(1s);
        fixture.launches.tidy(10s);
        CHECK_FALSE(CudaLaunches::is_done_with(process));
        fixture.launches.tidy(11s);
        CHECK(CudaLaunches::is_done_with(process));
        CHECK(fixture.count({"unknown"}) == 1);
    }
    SECTION("or were given up, later of a process that has ended") {
        process.ended = 2s;
        fixture.launches.tidy(2s);
        fixture.launches.tidy(31s);
        CHECK_FALSE(CudaLaunches::is_done_with(process));
        fixture.launches.tidy(32s);
        CHECK(CudaLaunches::is_done_with(process));
        CHECK(fixture.count({"unknown"}) == 1);
    }
    SECTION("which is at once for what is in the ring") {
        fixture.launches.on_kernel_name({fixture.asked.at(0).ticket, "gemm"});
        CHECK(CudaLaunches::is_done_with(process));
        fixture.launches.tidy(1s);
        CHECK(fixture.count({"gemm"}) == 1);
    }
}

TEST_CASE("the part of launches counts under a name that comes late what follows") {
    LaunchesFixture fixture;
    fixture.launches.on_launch(fixture.process(), launch(0x10, 7));
    fixture.launches.tidy(1s);
    fixture.launches.tidy(11s);
    fixture.launches.on_launch(fixture.process(), launch(0x10, 7));
    CHECK(fixture.count({"unknown"}) == 2);
    SECTION("to the first request") {
        REQUIRE(fixture.asked.size() == 1);
    }
    SECTION("or to another, after the first had no answer") {
        fixture.launches.on_kernel_name({fixture.asked.at(0).ticket, ""});
        fixture.launches.tidy(12s);
        fixture.launches.tidy(131s);
        CHECK(fixture.asked.size() == 1);
        fixture.launches.tidy(132s);
        REQUIRE(fixture.asked.size() == 2);
        CHECK(fixture.asked[1].address == 0x10);
    }
    fixture.launches.on_kernel_name({fixture.asked.back().ticket, "gemm"});
    fixture.launches.count_named();
    fixture.launches.on_launch(fixture.process(), launch(0x10, 7));
    fixture.launches.on_launch(fixture.process(), launch(0x10, 8));
    CHECK(fixture.count({"unknown"}) == 2);
    CHECK(fixture.count({"gemm"}) == 2);
}

TEST_CASE("the part of launches reads the answers before it gives a name up") {
    LaunchesFixture fixture;
    fixture.launches.tidy(1s);
    fixture.launches.on_launch(fixture.process(), launch(0x10, 7));
    fixture.launches.tidy(60s);  // the thread had no CPU meanwhile
    fixture.launches.on_kernel_name({fixture.asked.at(0).ticket, "gemm"});
    fixture.launches.tidy(61s);
    CHECK(fixture.count({"gemm"}) == 1);
    CHECK(fixture.count({"unknown"}) == 0);
}

TEST_CASE("the part of launches looks into the ring before it asks for a name") {
    LaunchesFixture fixture;
    Process &process = fixture.process();
    fixture.callbacks.catch_up = [&] { fixture.launches.on_name(process, named(0x10, "gemm")); };
    fixture.launches.on_launch(process, launch(0x10, 7));
    CHECK(fixture.asked.empty());
    CHECK(fixture.count({"gemm"}) == 1);
}

TEST_CASE("the part of launches counts those by graphs apart, also while they wait for a name") {
    LaunchesFixture fixture;
    const LaunchShape shape{0x10, 0, {7, 1, 1}, {32, 2, 1}};
    fixture.launches.on_launch(fixture.process(), launch(0x10, 7));
    fixture.launches.add_by_graph(fixture.process(), shape, 5, 2'000);
    REQUIRE(fixture.asked.size() == 1);
    fixture.launches.on_kernel_name({fixture.asked[0].ticket, "gemm"});
    fixture.launches.count_named();
    fixture.launches.add_by_graph(fixture.process(), shape, 2, 3'000);
    CHECK(fixture.page("cuda_kernel_launches_total") ==
          Page{{{"python", "", "", "", "gemm", "7x1x1", "32x2x1", "stream", "0"}, 1},
               {{"python", "", "", "", "gemm", "7x1x1", "32x2x1", "graph", "0"}, 7}});
}

TEST_CASE("kernels and shapes of one user's processes leave room for those of others") {
    // For the kernel and ten shapes of each of two users, and of one user no more.
    LaunchesFixture fixture({.bytes = 2 * (3072 + 10 * 256), .bytes_of_user = 3072 + 10 * 256});
    const auto launch_all = [&](std::uint32_t pid, std::uint32_t uid, const std::string &kernel) {
        Process &process = fixture.process(pid);
        process.uid = uid;
        fixture.launches.on_name(process, named(0x10, kernel));
        for (std::uint32_t grid = 1; grid <= 12; grid++) {
            fixture.launches.on_launch(process, launch(0x10, grid));
        }
    };
    launch_all(1, 1000, "first");
    CHECK(fixture.count({"first"}) == 12);
    CHECK(fixture.count({"first", "10x1x1"}) == 1);
    CHECK(fixture.count({"first", "other"}) == 2);
    launch_all(2, 1000, "second");  // not even for its kernel
    CHECK(fixture.count({"second"}) == 0);
    CHECK(fixture.count({"other"}) == 14);
    launch_all(3, 2000, "third");
    CHECK(fixture.count({"third", "10x1x1"}) == 1);
    CHECK(fixture.count({"third", "other"}) == 2);
    launch_all(1, 1000, "first");  // those that are known go on
    CHECK(fixture.count({"first", "10x1x1"}) == 2);
    CHECK(fixture.count() == 48);
}
