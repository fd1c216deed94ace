// The names that launches are counted under.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("launches wait for their kernel's name and lose none") {
    Fixture bench;
    bench.allocations(process());
    for (int i = 0; i < 10; i++) {
        bench.calls(launch(0xabc, 7));
    }
    bench.calls(launch(0xabc, 8));
    REQUIRE(bench.asked.size() == 1);
    CHECK(bench.asked[0].address == 0xabc);
    CHECK(bench.sum("cuda_kernel_launches_total") == 0);
    bench.name_kernels("gemm");
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm", "7x1x1", "32x2x1"}) == 10);
    bench.calls(launch(0xabc, 8));
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm", "8x1x1"}) == 2);
    CHECK(bench.asked.empty());
}

TEST_CASE("launches that the kernel has counted are added once, and have no duration") {
    Fixture bench;
    bench.allocations(process());
    bench.calls(launch(0xabc, 7));
    const auto by_calls = launch(0xabc, 7);
    const auto count = [&](std::uint64_t launches) {
        cuda_launch_key key{.since_ns = by_calls.head.since_ns,
                            .kernel = by_calls.kernel,
                            .tgid = by_calls.head.tgid,
                            .device = by_calls.head.device,
                            .grid = {},
                            .block = {},
                            .epoch = 0};
        std::ranges::copy(by_calls.grid, key.grid);
        std::ranges::copy(by_calls.block, key.block);
        return bench.aggregator->on_counted_launches(key, {launches, by_calls.head.ended_ns});
    };
    CHECK(count(2));
    CHECK(count(2));
    CHECK(count(5));
    bench.name_kernels("gemm");
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm", "7x1x1", "32x2x1"}) == 6);
    CHECK(bench.sum("cuda_kernel_launch_duration_seconds") == 1);
}

TEST_CASE("counted launches of a process that is not known are left to the caller") {
    Fixture bench;
    cuda_launch_key key{};
    key.tgid = 7;
    CHECK_FALSE(bench.aggregator->on_counted_launches(key, {1, 1}));
    CHECK(bench.page("cuda_kernel_launches_total").empty());
}

TEST_CASE("each GPU that a kernel is launched on is its own series") {
    Fixture bench;
    bench.allocations(process());
    auto one = launch(0xabc, 7);
    bench.calls(one);
    one.head.device = 1;
    bench.calls(one);
    bench.calls(one);
    bench.name_kernels("gemm");
    CHECK(bench.page("cuda_kernel_launches_total") ==
          Page{{{"python", "", "", "", "gemm", "7x1x1", "32x2x1", "stream", "4"}, 1},
               {{"python", "", "", "", "gemm", "7x1x1", "32x2x1", "stream", "5"}, 2}});
}

TEST_CASE("a launch by handle is named by the handle's host function") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(stands_for(0x5000, 0x400));
    bench.calls(launch(0x5000, 1));
    REQUIRE(bench.asked.size() == 1);
    CHECK(bench.asked[0].address == 0x400);
    bench.name_kernels("gemm");
    bench.calls(launch(0x400, 1));  // the same kernel, and its name is known
    bench.name_kernels("gemm");
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm"}) == 2);
}

TEST_CASE("a launch by a handle of a handle is named by the last of them") {
    Fixture bench;
    bench.allocations(process());
    SECTION("a host function") {
        bench.allocations(stands_for(0x5000, 0x400));
        bench.allocations(stands_for(0x6000, 0x5000));
        bench.allocations(stands_for(0x7000, 0x6000));
        bench.calls(launch(0x7000, 1));
        REQUIRE(bench.asked.size() == 1);
        CHECK(bench.asked[0].address == 0x400);
    }
    SECTION("the driver's kernel with a name") {
        bench.allocations(named(0x5000, "_Z4gemmPf"));
        bench.allocations(stands_for(0x6000, 0x5000));
        bench.calls(launch(0x6000, 1));
        CHECK(bench.asked.empty());
        CHECK(bench.sum("cuda_kernel_launches_total", {"gemm"}) == 1);
    }
    SECTION("which is asked for under its own address where they are in a circle") {
        bench.allocations(stands_for(0x5000, 0x6000));
        bench.allocations(stands_for(0x6000, 0x5000));
        bench.allocations(stands_for(0x7000, 0x7000));
        bench.calls(launch(0x6000, 1));
        bench.calls(launch(0x7000, 1));
        CHECK(bench.asked.size() == 2);
        bench.name_kernels("");
        CHECK(bench.sum("cuda_kernel_launches_total", {"unknown"}) == 2);
    }
}

TEST_CASE("a handle of the driver has the name that it was looked up by") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(named(0x5000, "_Z4gemmILi32EEvPKfPfi"));
    bench.allocations(named(0x6000, "triton_poi_fused_add_0"));
    bench.allocations(named(0x7000, std::string(CUDA_NAME_BYTES, 'x')));  // cut: it has no end
    bench.allocations(named(0x8000, "\xff\xfe\n\""));
    for (const std::uint64_t handle : {0x5000, 0x6000, 0x7000, 0x8000}) {
        bench.calls(launch(handle, 1));
    }
    CHECK(bench.asked.empty());
    CHECK(bench.sum("cuda_kernel_launches_total") == 4);
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm<32>"}) == 1);
    CHECK(bench.sum("cuda_kernel_launches_total", {"triton_poi_fused_add_0"}) == 1);
    for (const auto &[labels, value] : bench.page("cuda_kernel_launches_total")) {
        CHECK(labels[2].size() <= 128);
    }
}

TEST_CASE("a handle whose name is still in the ring is named by it") {
    Fixture bench;
    bench.allocations(process());
    bench.later(named(0x5000, "gemm"));
    bench.calls(launch(0x5000, 1));
    CHECK(bench.asked.empty());
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm"}) == 1);
}

TEST_CASE("a name that comes behind the launches is counted with them") {
    Fixture bench;
    bench.allocations(process());
    bench.calls(launch(0x5000, 1));
    bench.calls(launch(0x5000, 1));
    bench.allocations(named(0x5000, "gemm"));
    bench.apply_all();
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm"}) == 2);
    bench.name_kernels("an answer that nobody waits for");
    bench.calls(launch(0x5000, 1));
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm"}) == 3);
}

TEST_CASE("a handle that is given again counts for its new kernel from then on") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(named(0x5000, "first"));
    bench.allocations(named(0x6000, "stays"));
    bench.calls(launch(0x5000, 1));
    bench.calls(launch(0x5000, 2));
    bench.calls(launch(0x6000, 1));
    SECTION("by its name") {
        bench.allocations(named(0x5000, "second"));
        bench.allocations(named(0x5000, "second"));  // looked up once more
    }
    SECTION("as a handle of another kernel") {
        bench.allocations(named(0x7000, "second"));
        bench.allocations(stands_for(0x5000, 0x7000));
    }
    SECTION("as a handle of another host function") {
        bench.allocations(stands_for(0x5000, 0x400));
        bench.calls(launch(0x5000, 1));
        REQUIRE(bench.asked.size() == 1);
        CHECK(bench.asked[0].address == 0x400);
        bench.name_kernels("second");
        bench.calls(launch(0x5000, 2));
        bench.calls(launch(0x6000, 1));
        CHECK(bench.sum("cuda_kernel_launches_total", {"first"}) == 2);
        CHECK(bench.sum("cuda_kernel_launches_total", {"second"}) == 2);
        CHECK(bench.sum("cuda_kernel_launches_total", {"stays"}) == 2);
        return;
    }
    bench.calls(launch(0x5000, 1));
    bench.calls(launch(0x5000, 3));
    bench.calls(launch(0x6000, 1));
    CHECK(bench.asked.empty());
    CHECK(bench.page("cuda_kernel_launches_total") ==
          Page{{{"python", "", "", "", "first", "1x1x1", "32x2x1", "stream", "4"}, 1},
               {{"python", "", "", "", "first", "2x1x1", "32x2x1", "stream", "4"}, 1},
               {{"python", "", "", "", "second", "1x1x1", "32x2x1", "stream", "4"}, 1},
               {{"python", "", "", "", "second", "3x1x1", "32x2x1", "stream", "4"}, 1},
               {{"python", "", "", "", "stays", "1x1x1", "32x2x1", "stream", "4"}, 2}});
}

TEST_CASE("a launch that is heard of late counts for what its handle stood for then") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(named(0x5000, "first", 1'000));
    bench.calls(launch(0x5000, 1, 3'000));
    bench.allocations(named(0x5000, "second", 10'000));
    bench.allocations(named(0x5000, "third", 20'000));
    bench.calls(launch(0x5000, 1, 9'000));
    bench.calls(launch(0x5000, 1, 15'000));
    bench.calls(launch(0x5000, 1, 16'000));
    bench.calls(launch(0x5000, 1, 25'000));
    CHECK(bench.sum("cuda_kernel_launches_total", {"first"}) == 2);
    CHECK(bench.sum("cuda_kernel_launches_total", {"second"}) == 2);
    CHECK(bench.sum("cuda_kernel_launches_total", {"third"}) == 1);
}

TEST_CASE("a handle of a host function that is given again is asked for again") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(stands_for(0x5000, 0x400));
    bench.calls(launch(0x5000, 1));
    bench.name_kernels("first");
    bench.allocations(stands_for(0x5000, 0x800));
    bench.calls(launch(0x5000, 1));
    REQUIRE(bench.asked.size() == 1);
    CHECK(bench.asked[0].address == 0x800);
    bench.name_kernels("second");
    CHECK(bench.sum("cuda_kernel_launches_total", {"first"}) == 1);
    CHECK(bench.sum("cuda_kernel_launches_total", {"second"}) == 1);
}

TEST_CASE("a function of a kernel whose handle was given again has the new name") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(named(0x5000, "first"));
    bench.allocations(stands_for(0x6000, 0x5000));
    bench.calls(launch(0x6000, 1));
    bench.allocations(stands_for(0x6000, 0x5000));  // nothing new
    bench.calls(launch(0x6000, 1));
    bench.allocations(named(0x5000, "second"));
    bench.allocations(stands_for(0x6000, 0x5000));
    bench.calls(launch(0x6000, 1));
    CHECK(bench.sum("cuda_kernel_launches_total", {"first"}) == 2);
    CHECK(bench.sum("cuda_kernel_launches_total", {"second"}) == 1);
}

TEST_CASE("a kernel without a name is unknown once its process is gone for good") {
    Fixture bench;
    bench.allocations(process());
    bench.calls(launch(0xabc, 7));
    bench.allocations(exited(3'000));
    bench.aggregator->apply_until(1s);
    bench.aggregator->tidy(2s);
    CHECK(bench.sum("cuda_kernel_launches_total") == 0);
    bench.aggregator->tidy(60s);
    CHECK(bench.sum("cuda_kernel_launches_total", {"unknown", "7x1x1"}) == 1);
}

TEST_CASE("a name that comes when the process has ended is counted before the process leaves") {
    Fixture bench;
    bench.allocations(process());
    bench.calls(launch(0xabc, 7));
    bench.allocations(exited(3'000));
    bench.aggregator->apply_until(1s);
    REQUIRE(bench.asked.size() == 1);
    bench.aggregator->on_kernel_name({bench.asked[0].ticket, "gemm"});
    bench.aggregator->tidy(2s);
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm"}) == 1);
}

TEST_CASE("launches of a running process do not wait for a name for ever") {
    Fixture bench;
    bench.aggregator->tidy(1s);
    bench.allocations(process());
    bench.calls(launch(0xabc, 7));
    bench.aggregator->tidy(5s);
    CHECK(bench.sum("cuda_kernel_launches_total") == 0);
    bench.aggregator->tidy(15s);
    CHECK(bench.sum("cuda_kernel_launches_total", {"unknown", "7x1x1"}) == 1);
    bench.name_kernels("late");
    bench.calls(launch(0xabc, 7));
    CHECK(bench.sum("cuda_kernel_launches_total", {"unknown", "7x1x1"}) == 1);
    CHECK(bench.sum("cuda_kernel_launches_total", {"late", "7x1x1"}) == 1);
}

TEST_CASE("names that are asked for right at the start are waited for as well") {
    Fixture bench({.started = 1h});
    bench.allocations(process());
    bench.calls(launch(0xabc, 7));
    bench.aggregator->tidy(1h + 20ms);
    bench.name_kernels("gemm");
    CHECK(bench.sum("cuda_kernel_launches_total", {"gemm"}) == 1);
    CHECK(bench.sum("cuda_kernel_launches_total", {"unknown"}) == 0);
}

TEST_CASE("100,000 names and shapes stay in the budget with their totals", "[bulk]") {
    constexpr std::uint32_t budget = 200;
    constexpr std::uint64_t many = 100'000;
    Fixture bench({.budget = [](std::string_view) { return budget; }});
    bench.allocations(process());
    std::uint64_t launches = 0;
    const auto is_in_budget = [&] {
        const auto page = bench.page("cuda_kernel_launches_total");
        CHECK(page.size() <= budget + 1);  // and "other"
        CHECK(bench.sum("cuda_kernel_launches_total") == launches);
    };
    SECTION("names") {
        for (std::uint64_t i = 1; i <= many; i++) {
            bench.calls(launch(i * 16, 7));
            launches++;
        }
        std::uint64_t number = 0;
        for (const auto &request : std::exchange(bench.asked, {})) {
            bench.aggregator->on_kernel_name({request.ticket, "k" + std::to_string(number++)});
        }
        bench.apply_all();
    }
    SECTION("names of handles") {
        for (std::uint64_t i = 1; i <= many; i++) {
            bench.allocations(named(i * 16, "k" + std::to_string(i)));
            bench.calls(launch(i * 16, 7));
            launches++;
        }
        CHECK(bench.asked.empty());
    }
    SECTION("names of one handle") {
        for (std::uint64_t i = 1; i <= many; i++) {
            bench.allocations(named(16, "k" + std::to_string(i)));
            bench.calls(launch(16, 7));
            launches++;
        }
    }
    SECTION("shapes") {
        bench.allocations(named(16, "gemm"));
        for (std::uint32_t i = 1; i <= many; i++) {
            bench.calls(launch(16, i));
            launches++;
        }
    }
    is_in_budget();
    // What is launched most in the end is shown by its name, though it came last.
    bench.allocations(named(16, "heavy"));
    for (int second = 1; second < 30; second++) {
        for (int i = 0; i < 1'000; i++) {
            bench.calls(launch(16, 99));
            launches++;
        }
        bench.aggregator->tidy(std::chrono::seconds(second));
    }
    is_in_budget();
    CHECK(bench.sum("cuda_kernel_launches_total", {"heavy", "99x1x1"}) > 20'000);
}
