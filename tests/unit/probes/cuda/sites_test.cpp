// Where in the program memory was allocated.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/probes/cuda/fixture.h"
#include "tests/unit/probes/cuda/site_allocation.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr const char *sites = "cuda_memory_site_outstanding_bytes";

}  // namespace

TEST_CASE("a call site is asked for once in each process") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(process("other", 43));
    for (int i = 0; i < 3; i++) {
        bench.allocations(from(7, 0x40, 10));
        bench.allocations(from(7, 0x44, 1));
        bench.allocations(from(-1, 0x40, 1));
        bench.allocations(of(43, bench_since, from(7, 0x40, 5)));
    }
    bench.apply_all();
    REQUIRE(bench.asked_sites.size() == 4);
    CHECK(bench.asked_sites[0].site == Site{7, 0x40});
    CHECK(bench.asked_sites[0].pid == 42);
    CHECK(bench.asked_sites[3].pid == 43);
    CHECK(bench.page(sites).empty());  // not named yet
    bench.name_site(0, "train");
    CHECK(bench.page(sites) == Page{{{"python", "", "", "", "42", "train"}, 30}});
    bench.name_site(3, "train");
    CHECK(bench.page(sites) == Page{{{"python", "", "", "", "42", "train"}, 30},
                                    {{"other", "", "", "", "43", "train"}, 15}});
    bench.aggregator->on_site_name({bench.asked_sites[0].ticket, {{"again", "program", 1}}});
    bench.aggregator->on_site_name({987'654, {{"nobody's", "program", 1}}});
    CHECK(bench.sum(sites, {"train"}) == 45);
}

TEST_CASE("a site that holds nothing any more is not shown, and need not be asked for again") {
    Fixture bench;
    bench.allocations(process());
    const auto one = from(7, 0x40, 10);
    bench.allocations(one);
    bench.apply_all();
    bench.name_site(0, "train");
    bench.allocations(release(one, 3'000));
    bench.apply_all();
    CHECK(bench.page(sites).empty());
    bench.allocations(from(7, 0x40, 3, 4'000));
    bench.apply_all();
    CHECK(bench.asked_sites.size() == 1);
    CHECK(bench.sum(sites, {"train"}) == 3);
}

TEST_CASE("the sites that hold the most are shown, of those with one name the sum") {
    Fixture bench({.sites = 2});
    bench.allocations(process());
    bench.allocations(from(1, 0x40, 40));
    bench.allocations(from(2, 0x40, 30));
    // The most of all, though each of them is less.
    bench.allocations(from(3, 0x40, 25));
    bench.allocations(from(4, 0x40, 24));
    bench.apply_all();
    bench.name_site(0, "a");
    bench.name_site(1, "b");
    bench.name_site(2, "c");
    bench.name_site(3, "c");
    CHECK(bench.page(sites) ==
          Page{{{"python", "", "", "", "42", "c"}, 49}, {{"python", "", "", "", "42", "a"}, 40}});
    const auto all = bench.aggregator->allocations();
    REQUIRE(all.size() == 1);
    CHECK(all[0].pid == 42);
    CHECK(all[0].names.comm == "python");
    CHECK(all[0].amount == Amount{119, 4});
    REQUIRE(all[0].sites.size() == 4);
    CHECK(all[0].sites[0].amount == Amount{40, 1});
    CHECK(all[0].sites[0].name.label == "a");
    CHECK(all[0].sites[3].amount == Amount{24, 1});
    CHECK(all[0].sites[3].name.frames.at(0).function == "c");
}

TEST_CASE("no call sites are shown where none are asked for") {
    Fixture bench({.sites = 0});
    bench.allocations(process());
    bench.allocations(from(1, 0x40, 40));
    bench.apply_all();
    bench.name_site(0, "a");
    CHECK(bench.page(sites).empty());
    CHECK(bench.aggregator->allocations().at(0).sites.size() == 1);
}

TEST_CASE("a site of which nothing can be found out is unknown") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(from(1, 0x40, 40));
    bench.apply_all();
    bench.aggregator->on_site_name({bench.asked_sites.at(0).ticket, {}});
    CHECK(bench.page(sites) == Page{{{"python", "", "", "", "42", "unknown"}, 40}});
}

TEST_CASE("a stack is forgotten when the last process that used it has ended") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(process("other", 43));
    bench.allocations(from(7, 0x40, 1));
    bench.allocations(from(7, 0x44, 1));  // two sites with one stack
    bench.allocations(from(8, 0x40, 1));
    bench.allocations(from(-1, 0x40, 1));
    bench.allocations(of(43, bench_since, from(7, 0x40, 1)));
    bench.allocations(exited(3'000));
    bench.apply_all();
    CHECK(bench.forgotten_stacks == std::vector{8});
    bench.allocations(of(43, bench_since, exited(4'000)));
    bench.apply_all();
    CHECK(bench.forgotten_stacks == std::vector{8, 7});
    bench.name_site(0, "answered too late");
    CHECK(bench.page(sites).empty());
}

TEST_CASE("an answer for a process that is gone changes nothing") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(from(7, 0x40, 1));
    bench.allocations(exited(3'000));
    bench.apply_all();
    bench.aggregator->tidy(1s);
    bench.name_site(0, "train");
    CHECK(bench.page(sites).empty());
}

TEST_CASE("one process cannot have more call sites named than there is room for") {
    Fixture bench({.budget = [](std::string_view) { return 1'000'000U; }, .sites = 1'000});
    bench.allocations(process());
    constexpr std::uint64_t many = 20'000;
    for (std::uint64_t i = 0; i < many; i++) {
        bench.allocations(from(static_cast<std::int32_t>(i), i, 1));
    }
    bench.apply_all();
    CHECK(bench.asked_sites.size() == 4'096);
    for (std::size_t i = 0; i < bench.asked_sites.size(); i++) {
        bench.name_site(i, "f" + std::to_string(i));
    }
    CHECK(bench.page(sites).size() == 1'000);
    CHECK(bench.aggregator->allocations().at(0).sites.size() == many);
    bench.allocations(exited(3'000));
    bench.apply_all();
    CHECK(bench.forgotten_stacks.size() == many);
}
