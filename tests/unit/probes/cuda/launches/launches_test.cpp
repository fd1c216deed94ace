// The names that launches are counted under.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("launches wait for their kernel's name and lose none") {
    Fixture fixture;
    fixture.allocations(process());
    for (int i = 0; i < 10; i++) {
        fixture.calls(launch(0xabc, 7));
    }
    fixture.calls(launch(0xabc, 8));
    REQUIRE(fixture.asked.size() == 1);
    CHECK(fixture.asked[0].address == 0xabc);
    CHECK(fixture.sum("cuda_kernel_launches_total") == 0);
    fixture.name_kernels("gemm");
    CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm", "7x1x1", "32x2x1"}) == 10);
    fixture.calls(launch(0xabc, 8));
    CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm", "8x1x1"}) == 2);
    CHECK(fixture.asked.empty());
}

TEST_CASE("launches that the kernel has counted are added once, and have no duration") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.calls(launch(0xabc, 7));
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
        return fixture.aggregator->on_counted_launches(key, {launches, by_calls.head.ended_ns});
    };
    CHECK(count(2));
    CHECK(count(2));
    CHECK(count(5));
    fixture.name_kernels("gemm");
    CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm", "7x1x1", "32x2x1"}) == 6);
    CHECK(fixture.sum("cuda_kernel_launch_duration_seconds") == 1);
}

TEST_CASE("counted launches of a process that is not known are left to the caller") {
    Fixture fixture;
    cuda_launch_key key{};
    key.tgid = 7;
    CHECK_FALSE(fixture.aggregator->on_counted_launches(key, {1, 1}));
    CHECK(fixture.page("cuda_kernel_launches_total").empty());
}

TEST_CASE("each GPU that a kernel is launched on is its own series") {
    Fixture fixture;
    fixture.allocations(process());
    auto one = launch(0xabc, 7);
    fixture.calls(one);
    one.head.device = 1;
    fixture.calls(one);
    fixture.calls(one);
    fixture.name_kernels("gemm");
    CHECK(fixture.page("cuda_kernel_launches_total") ==
          Page{{{"python", "", "", "", "gemm", "7x1x1", "32x2x1", "stream", "4"}, 1},
               {{"python", "", "", "", "gemm", "7x1x1", "32x2x1", "stream", "5"}, 2}});
}

TEST_CASE("a launch by handle is named by the handle's host function") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(stands_for(0x5000, 0x400));
    fixture.calls(launch(0x5000, 1));
    REQUIRE(fixture.asked.size() == 1);
    CHECK(fixture.asked[0].address == 0x400);
    fixture.name_kernels("gemm");
    fixture.calls(launch(0x400, 1));  // the same kernel, and its name is known
    fixture.name_kernels("gemm");
    CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm"}) == 2);
}

TEST_CASE("a launch by a handle of a handle is named by the last of them") {
    Fixture fixture;
    fixture.allocations(process());
    SECTION("a host function") {
        fixture.allocations(stands_for(0x5000, 0x400));
        fixture.allocations(stands_for(0x6000, 0x5000));
        fixture.allocations(stands_for(0x7000, 0x6000));
        fixture.calls(launch(0x7000, 1));
        REQUIRE(fixture.asked.size() == 1);
        CHECK(fixture.asked[0].address == 0x400);
    }
    SECTION("the driver's kernel with a name") {
        fixture.allocations(named(0x5000, "_Z4gemmPf"));
        fixture.allocations(stands_for(0x6000, 0x5000));
        fixture.calls(launch(0x6000, 1));
        CHECK(fixture.asked.empty());
        CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm"}) == 1);
    }
    SECTION("which is asked for under its own address where they are in a circle") {
        fixture.allocations(stands_for(0x5000, 0x6000));
        fixture.allocations(stands_for(0x6000, 0x5000));
        fixture.allocations(stands_for(0x7000, 0x7000));
        fixture.calls(launch(0x6000, 1));
        fixture.calls(launch(0x7000, 1));
        CHECK(fixture.asked.size() == 2);
        fixture.name_kernels("");
        CHECK(fixture.sum("cuda_kernel_launches_total", {"unknown"}) == 2);
    }
}

TEST_CASE("a handle of the driver has the name that it was looked up by") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(named(0x5000, "_Z4gemmILi32EEvPKfPfi"));
    fixture.allocations(named(0x6000, "triton_poi_fused_add_0"));
    fixture.allocations(named(0x7000, std::string(CUDA_NAME_BYTES, 'x')));  // cut: it has no end
    fixture.allocations(named(0x8000, "\xff\xfe\n\""));
    for (const std::uint64_t handle : {0x5000, 0x6000, 0x7000, 0x8000}) {
        fixture.calls(launch(handle, 1));
    }
    CHECK(fixture.asked.empty());
    CHECK(fixture.sum("cuda_kernel_launches_total") == 4);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm<32>"}) == 1);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"triton_poi_fused_add_0"}) == 1);
    for (const auto &[labels, value] : fixture.page("cuda_kernel_launches_total")) {
        CHECK(labels[2].size() <= 128);
    }
}

TEST_CASE("a handle whose name is still in the ring is named by it") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.later(named(0x5000, "gemm"));
    fixture.calls(launch(0x5000, 1));
    CHECK(fixture.asked.empty());
    CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm"}) == 1);
}

TEST_CASE("a name that comes behind the launches is counted with them") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.calls(launch(0x5000, 1));
    fixture.calls(launch(0x5000, 1));
    fixture.allocations(named(0x5000, "gemm"));
    fixture.apply_all();
    CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm"}) == 2);
    fixture.name_kernels("an answer that nobody waits for");
    fixture.calls(launch(0x5000, 1));
    CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm"}) == 3);
}

TEST_CASE("a handle that is given again counts for its new kernel from then on") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(named(0x5000, "first"));
    fixture.allocations(named(0x6000, "stays"));
    fixture.calls(launch(0x5000, 1));
    fixture.calls(launch(0x5000, 2));
    fixture.calls(launch(0x6000, 1));
    SECTION("by its name") {
        fixture.allocations(named(0x5000, "second"));
        fixture.allocations(named(0x5000, "second"));  // looked up once more
    }
    SECTION("as a handle of another kernel") {
        fixture.allocations(named(0x7000, "second"));
        fixture.allocations(stands_for(0x5000, 0x7000));
    }
    SECTION("as a handle of another host function") {
        fixture.allocations(stands_for(0x5000, 0x400));
        fixture.calls(launch(0x5000, 1));
        REQUIRE(fixture.asked.size() == 1);
        CHECK(fixture.asked[0].address == 0x400);
        fixture.name_kernels("second");
        fixture.calls(launch(0x5000, 2));
        fixture.calls(launch(0x6000, 1));
        CHECK(fixture.sum("cuda_kernel_launches_total", {"first"}) == 2);
        CHECK(fixture.sum("cuda_kernel_launches_total", {"second"}) == 2);
        CHECK(fixture.sum("cuda_kernel_launches_total", {"stays"}) == 2);
        return;
    }
    fixture.calls(launch(0x5000, 1));
    fixture.calls(launch(0x5000, 3));
    fixture.calls(launch(0x6000, 1));
    CHECK(fixture.asked.empty());
    CHECK(fixture.page("cuda_kernel_launches_total") ==
          Page{{{"python", "", "", "", "first", "1x1x1", "32x2x1", "stream", "4"}, 1},
               {{"python", "", "", "", "first", "2x1x1", "32x2x1", "stream", "4"}, 1},
               {{"python", "", "", "", "second", "1x1x1", "32x2x1", "stream", "4"}, 1},
               {{"python", "", "", "", "second", "3x1x1", "32x2x1", "stream", "4"}, 1},
               {{"python", "", "", "", "stays", "1x1x1", "32x2x1", "stream", "4"}, 2}});
}

TEST_CASE("a launch that is heard of late counts for what its handle stood for then") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(named(0x5000, "first", 1'000));
    fixture.calls(launch(0x5000, 1, 3'000));
    fixture.allocations(named(0x5000, "second", 10'000));
    fixture.allocations(named(0x5000, "third", 20'000));
    fixture.calls(launch(0x5000, 1, 9'000));
    fixture.calls(launch(0x5000, 1, 15'000));
    fixture.calls(launch(0x5000, 1, 16'000));
    fixture.calls(launch(0x5000, 1, 25'000));
    CHECK(fixture.sum("cuda_kernel_launches_total", {"first"}) == 2);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"second"}) == 2);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"third"}) == 1);
}

TEST_CASE("a handle of a host function that is given again is asked for again") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(stands_for(0x5000, 0x400));
    fixture.calls(launch(0x5000, 1));
    fixture.name_kernels("first");
    fixture.allocations(stands_for(0x5000, 0x800));
    fixture.calls(launch(0x5000, 1));
    REQUIRE(fixture.asked.size() == 1);
    CHECK(fixture.asked[0].address == 0x800);
    fixture.name_kernels("second");
    CHECK(fixture.sum("cuda_kernel_launches_total", {"first"}) == 1);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"second"}) == 1);
}

TEST_CASE("a function of a kernel whose handle was given again has the new name") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(named(0x5000, "first"));
    fixture.allocations(stands_for(0x6000, 0x5000));
    fixture.calls(launch(0x6000, 1));
    fixture.allocations(stands_for(0x6000, 0x5000));  // nothing new
    fixture.calls(launch(0x6000, 1));
    fixture.allocations(named(0x5000, "second"));
    fixture.allocations(stands_for(0x6000, 0x5000));
    fixture.calls(launch(0x6000, 1));
    CHECK(fixture.sum("cuda_kernel_launches_total", {"first"}) == 2);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"second"}) == 1);
}

TEST_CASE("a kernel without a name is unknown once its process is gone for good") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.calls(launch(0xabc, 7));
    fixture.allocations(exited(3'000));
    fixture.aggregator->apply_until(1s);
    fixture.aggregator->tidy(2s);
    CHECK(fixture.sum("cuda_kernel_launches_total") == 0);
    fixture.aggregator->tidy(60s);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"unknown", "7x1x1"}) == 1);
}

TEST_CASE("a name that comes when the process has ended is counted before the process leaves") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.calls(launch(0xabc, 7));
    fixture.allocations(exited(3'000));
    fixture.aggregator->apply_until(1s);
    REQUIRE(fixture.asked.size() == 1);
    fixture.aggregator->on_kernel_name({fixture.asked[0].ticket, "gemm"});
    fixture.aggregator->tidy(2s);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm"}) == 1);
}

TEST_CASE("launches of a running process do not wait for a name for ever") {
    Fixture fixture;
    fixture.aggregator->tidy(1s);
    fixture.allocations(process());
    fixture.calls(launch(0xabc, 7));
    fixture.aggregator->tidy(5s);
    CHECK(fixture.sum("cuda_kernel_launches_total") == 0);
    fixture.aggregator->tidy(15s);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"unknown", "7x1x1"}) == 1);
    fixture.name_kernels("late");
    fixture.calls(launch(0xabc, 7));
    CHECK(fixture.sum("cuda_kernel_launches_total", {"unknown", "7x1x1"}) == 1);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"late", "7x1x1"}) == 1);
}

TEST_CASE("names that are asked for right at the start are waited for as well") {
    Fixture fixture({.started = 1h});
    fixture.allocations(process());
    fixture.calls(launch(0xabc, 7));
    fixture.aggregator->tidy(1h + 20ms);
    fixture.name_kernels("gemm");
    CHECK(fixture.sum("cuda_kernel_launches_total", {"gemm"}) == 1);
    CHECK(fixture.sum("cuda_kernel_launches_total", {"unknown"}) == 0);
}

TEST_CASE("100,000 names and shapes stay in the budget with their totals", "[bulk]") {
    constexpr std::uint32_t budget = 200;
    constexpr std::uint64_t many = 100'000;
    Fixture fixture({.budget = [](std::string_view) { return budget; }});
    fixture.allocations(process());
    std::uint64_t launches = 0;
    const auto is_in_budget = [&] {
        const auto page = fixture.page("cuda_kernel_launches_total");
        CHECK(page.size() <= budget + 1);  // and "other"
        CHECK(fixture.sum("cuda_kernel_launches_total") == launches);
    };
    SECTION("names") {
        for (std::uint64_t i = 1; i <= many; i++) {
            fixture.calls(launch(i * 16, 7));
            launches++;
        }
        std::uint64_t number = 0;
        for (const auto &request : std::exchange(fixture.asked, {})) {
            fixture.aggregator->on_kernel_name({request.ticket, "k" + std::to_string(number++)});
        }
        fixture.apply_all();
    }
    SECTION("names of handles") {
        for (std::uint64_t i = 1; i <= many; i++) {
            fixture.allocations(named(i * 16, "k" + std::to_string(i)));
            fixture.calls(launch(i * 16, 7));
            launches++;
        }
        CHECK(fixture.asked.empty());
    }
    SECTION("names of one handle") {
        for (std::uint64_t i = 1; i <= many; i++) {
            fixture.allocations(named(16, "k" + std::to_string(i)));
            fixture.calls(launch(16, 7));
            launches++;
        }
    }
    SECTION("shapes") {
        fixture.allocations(named(16, "gemm"));
        for (std::uint32_t i = 1; i <= many; i++) {
            fixture.calls(launch(16, i));
            launches++;
        }
    }
    is_in_budget();
    // What is launched most in the end is shown by its name, though it came last.
    fixture.allocations(named(16, "heavy"));
    for (int second = 1; second < 30; second++) {
        for (int i = 0; i < 1'000; i++) {
            fixture.calls(launch(16, 99));
            launches++;
        }
        fixture.aggregator->tidy(std::chrono::seconds(second));
    }
    is_in_budget();
    CHECK(fixture.sum("cuda_kernel_launches_total", {"heavy", "99x1x1"}) > 20'000);
}
