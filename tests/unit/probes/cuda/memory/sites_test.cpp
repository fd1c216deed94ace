// Where in the program memory was allocated.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "tests/unit/probes/cuda/fixture.h"
#include "tests/unit/probes/cuda/site_allocation.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr const char *sites = "cuda_memory_site_outstanding_bytes";

}  // namespace

TEST_CASE("a call site is asked for once in each process") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(process("other", 43));
    for (int i = 0; i < 3; i++) {
        fixture.allocations(from(7, 0x40, 10));
        fixture.allocations(from(7, 0x44, 1));
        fixture.allocations(from(-1, 0x40, 1));
        fixture.allocations(of(43, bench_since, from(7, 0x40, 5)));
    }
    fixture.apply_all();
    REQUIRE(fixture.asked_sites.size() == 4);
    CHECK(fixture.asked_sites[0].site == Site{7, 0x40});
    CHECK(fixture.asked_sites[0].pid == 42);
    CHECK(fixture.asked_sites[3].pid == 43);
    CHECK(fixture.page(sites).empty());  // not named yet
    fixture.name_site(0, "train");
    CHECK(fixture.page(sites) == Page{{{"python", "", "", "", "42", "train"}, 30}});
    fixture.name_site(3, "train");
    CHECK(fixture.page(sites) == Page{{{"python", "", "", "", "42", "train"}, 30},
                                      {{"other", "", "", "", "43", "train"}, 15}});
    fixture.aggregator->on_site_name({fixture.asked_sites[0].ticket, {{"again", "program", 1}}});
    fixture.aggregator->on_site_name({987'654, {{"nobody's", "program", 1}}});
    CHECK(fixture.sum(sites, {"train"}) == 45);
}

TEST_CASE("a site that holds nothing any more is not shown, and need not be asked for again") {
    Fixture fixture;
    fixture.allocations(process());
    const auto one = from(7, 0x40, 10);
    fixture.allocations(one);
    fixture.apply_all();
    fixture.name_site(0, "train");
    fixture.allocations(release(one, 3'000));
    fixture.apply_all();
    CHECK(fixture.page(sites).empty());
    fixture.allocations(from(7, 0x40, 3, 4'000));
    fixture.apply_all();
    CHECK(fixture.asked_sites.size() == 1);
    CHECK(fixture.sum(sites, {"train"}) == 3);
}

TEST_CASE("the sites that hold the most are shown, of those with one name the sum") {
    Fixture fixture({.sites = 2});
    fixture.allocations(process());
    fixture.allocations(from(1, 0x40, 40));
    fixture.allocations(from(2, 0x40, 30));
    // The most of all, though each of them is less.
    fixture.allocations(from(3, 0x40, 25));
    fixture.allocations(from(4, 0x40, 24));
    fixture.apply_all();
    fixture.name_site(0, "a");
    fixture.name_site(1, "b");
    fixture.name_site(2, "c");
    fixture.name_site(3, "c");
    CHECK(fixture.page(sites) ==
          Page{{{"python", "", "", "", "42", "c"}, 49}, {{"python", "", "", "", "42", "a"}, 40}});
    const auto all = fixture.aggregator->allocations();
    REQUIRE(all.size() == 1);
    CHECK(all[0].pid == 42);
    CHECK(all[0].names.comm == "python");
    CHECK(all[0].amount == Amount{119, 4});
    REQUIRE(all[0].sites.size() == 4);
    CHECK(all[0].sites[0].amount == Amount{40, 1});
    CHECK(all[0].sites[0].name.label == "a");
    CHECK(all[0].sites[3].amount == Amount{24, 1});
    CHECK(frames_of(all[0].sites[3].name.stack).at(0).function == "c");
}

TEST_CASE("a call site that is shown stays until another holds an eighth more") {
    Fixture fixture({.sites = 2});
    fixture.allocations(process());
    fixture.allocations(from(1, 0x40, 500));
    fixture.allocations(from(2, 0x40, 400));
    fixture.allocations(from(3, 0x40, 399));
    fixture.apply_all();
    for (std::size_t i = 0; i < 3; i++) {
        fixture.name_site(i, std::string(1, static_cast<char>('a' + i)));
    }
    const auto shown = [&](const std::string &first, std::uint64_t more, const std::string &second,
                           std::uint64_t fewer) {
        CHECK(fixture.page(sites) == Page{{{"python", "", "", "", "42", first}, more},
                                          {{"python", "", "", "", "42", second}, fewer}});
    };
    shown("a", 500, "b", 400);
    fixture.allocations(from(3, 0x40, 50, 4'000));
    fixture.apply_all();
    shown("a", 500, "b", 400);  // c has 449, almost an eighth more
    fixture.allocations(from(3, 0x40, 1, 5'000));
    fixture.apply_all();
    shown("a", 500, "c", 450);
    // The other way round, too.
    fixture.allocations(from(2, 0x40, 60, 6'000));
    fixture.apply_all();
    shown("a", 500, "c", 450);
    fixture.allocations(from(2, 0x40, 140, 7'000));
    fixture.apply_all();
    shown("b", 600, "a", 500);
}

TEST_CASE("no call sites are shown where none are asked for") {
    Fixture fixture({.sites = 0});
    fixture.allocations(process());
    fixture.allocations(from(1, 0x40, 40));
    fixture.apply_all();
    fixture.name_site(0, "a");
    CHECK(fixture.page(sites).empty());
    CHECK(fixture.aggregator->allocations().at(0).sites.size() == 1);
}

TEST_CASE("a site of which nothing can be found out is unknown") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(from(1, 0x40, 40));
    fixture.apply_all();
    fixture.aggregator->on_site_name({fixture.asked_sites.at(0).ticket, {}});
    CHECK(fixture.page(sites) == Page{{{"python", "", "", "", "42", "unknown"}, 40}});
}

TEST_CASE("a stack is forgotten when the last process that used it has ended") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(process("other", 43));
    fixture.allocations(from(7, 0x40, 1));
    fixture.allocations(from(7, 0x44, 1));  // two sites with one stack
    fixture.allocations(from(8, 0x40, 1));
    fixture.allocations(from(-1, 0x40, 1));
    fixture.allocations(of(43, bench_since, from(7, 0x40, 1)));
    fixture.allocations(exited(3'000));
    fixture.apply_all();
    CHECK(fixture.forgotten_stacks == std::vector{8});
    fixture.allocations(of(43, bench_since, exited(4'000)));
    fixture.apply_all();
    CHECK(fixture.forgotten_stacks == std::vector{8, 7});
    fixture.name_site(0, "answered too late");
    CHECK(fixture.page(sites).empty());
}

TEST_CASE("an answer for a process that is gone changes nothing") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(from(7, 0x40, 1));
    fixture.allocations(exited(3'000));
    fixture.apply_all();
    fixture.aggregator->tidy(1s);
    fixture.name_site(0, "train");
    CHECK(fixture.page(sites).empty());
}

TEST_CASE("one process cannot have more call sites named than there is room for") {
    Fixture fixture({.budget = [](std::string_view) { return 1'000'000U; }, .sites = 1'000});
    fixture.allocations(process());
    constexpr std::uint64_t many = 20'000;
    for (std::uint64_t i = 0; i < many; i++) {
        fixture.allocations(from(static_cast<std::int32_t>(i), i, 1));
    }
    fixture.apply_all();
    CHECK(fixture.asked_sites.size() == 4'096);
    for (std::size_t i = 0; i < fixture.asked_sites.size(); i++) {
        fixture.name_site(i, "f" + std::to_string(i));
    }
    CHECK(fixture.page(sites).size() == 1'000);
    CHECK(fixture.aggregator->allocations().at(0).sites.size() == many);
    fixture.allocations(exited(3'000));
    fixture.apply_all();
    CHECK(fixture.forgotten_stacks.size() == many);
}

TEST_CASE("stacks of Python's functions distinguish sites, and are in use while memory is live") {
    Fixture fixture;
    fixture.allocations(process());
    auto one = from(7, 0x40, 10);
    one.python = 12;
    auto other = from(7, 0x40, 5);
    other.python = 13;
    fixture.allocations(one);
    fixture.allocations(other);
    fixture.apply_all();
    REQUIRE(fixture.asked_sites.size() == 2);
    CHECK(fixture.asked_sites[0].site == Site{7, 0x40, 12});
    CHECK(fixture.asked_sites[1].site == Site{7, 0x40, 13});
    CHECK(fixture.aggregator->python_stacks() == std::set<std::uint64_t>{12, 13});
    fixture.allocations(release(one, 3'000));
    fixture.apply_all();
    CHECK(fixture.aggregator->python_stacks() == std::set<std::uint64_t>{13});
}

TEST_CASE("a site that holds nothing for minutes is asked for again") {
    Fixture fixture;
    fixture.allocations(process());
    const auto one = from(7, 0x40, 10);
    fixture.allocations(one);
    fixture.apply_all();
    fixture.allocations(release(one, 3'000));
    fixture.apply_all();
    for (int minute = 1; minute <= 3; minute++) {
        fixture.aggregator->tidy(minute * 70s);
    }
    fixture.allocations(from(7, 0x40, 3, 4'000));
    fixture.apply_all();
    CHECK(fixture.asked_sites.size() == 2);
}
