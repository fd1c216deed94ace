// Turns and pauses of a process, by what it costs.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "exporter/probes/cuda/governor/cost_budget.h"
#include "tests/unit/probes/cuda/fixture.h"

using namespace std::chrono_literals;
using gpusnoop::probes::CostBudget;
using std::chrono::nanoseconds;
using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

constexpr nanoseconds tick = 200ms;
constexpr std::uint32_t percent = 5;

// A process that costs `seen` of each tick in which its launches are seen, and `rest` of each.
struct Running {
    nanoseconds seen;
    nanoseconds rest{};
    nanoseconds now = 1h;
    nanoseconds cost = 1s;  // from before
    nanoseconds seen_for{};
    unsigned turns = 0;
    nanoseconds longest_pause{};
    nanoseconds pause{};
    bool is_seen = true;
    CostBudget budget{percent, now, cost};

    void run(nanoseconds time) {
        for (const nanoseconds until = now + time; now < until;) {
            now += tick;
            cost += rest + (is_seen ? seen : nanoseconds(0));
            seen_for += is_seen ? tick : nanoseconds(0);
            pause = is_seen ? nanoseconds(0) : pause + tick;
            longest_pause = std::max(longest_pause, pause);
            const bool was_seen = is_seen;
            is_seen = budget.note(now, cost);
            turns += !was_seen && is_seen ? 1 : 0;
        }
    }
};

// Of a tick, by what the page says: half of it is a process's share of 5 %.
constexpr nanoseconds of_tick(std::int64_t percent_of_it) {
    return tick * percent_of_it / 100;
}

}  // namespace

TEST_CASE("a process that costs less than it may is always seen") {
    Running process{.seen = of_tick(2)};  // twice that are 4 %
    process.run(1h);
    CHECK(process.seen_for == 1h);
    CHECK_FALSE(process.budget.is_in_turns());
}

TEST_CASE("a process may cost more for a moment, as at its start") {
    Running process{.seen = of_tick(20)};
    process.run(1s);
    process.seen = of_tick(1);
    process.run(10min);
    CHECK(process.seen_for == 601s);
    CHECK_FALSE(process.budget.is_in_turns());
}

TEST_CASE("a process that costs more has turns of a second, and costs its share on average") {
    for (const std::int64_t share : {3, 5, 10, 30, 60}) {
        CAPTURE(share);
        Running process{.seen = of_tick(share)};
        process.run(1h);
        CHECK(process.budget.is_in_turns());
        const nanoseconds spent = 2 * (process.cost - nanoseconds(1s));
        const nanoseconds may = nanoseconds(1h) * percent / 100;
        const nanoseconds saved = nanoseconds(CostBudget::window) * percent / 100;
        CHECK(spent <= may + saved + 2 * of_tick(share));
        CHECK(spent > may * 9 / 10);
        CHECK(process.turns > 100);
        CHECK(process.seen_for >= process.turns * nanoseconds(400ms));
        CHECK(process.longest_pause <= CostBudget::longest_pause + tick);
        CHECK(process.budget.percent_at_begin() > 2 * static_cast<double>(share) - 0.1);
        CHECK(process.budget.percent_at_begin() < 2 * static_cast<double>(share) + 0.1);
    }
}

TEST_CASE("a process is always seen again once it costs less") {
    Running process{.seen = of_tick(30)};
    process.run(1min);
    REQUIRE(process.budget.is_in_turns());
    process.seen = of_tick(1);
    process.run(1min);
    CHECK_FALSE(process.budget.is_in_turns());
    CHECK(process.is_seen);
    const nanoseconds before = process.seen_for;
    process.run(10min);
    CHECK(process.seen_for - before == 10min);
}

TEST_CASE("a process whose other calls use up the budget has a turn now and then all the same") {
    Running process{.seen = of_tick(10), .rest = of_tick(10)};
    process.run(1h);
    CHECK(process.longest_pause <= CostBudget::longest_pause + tick);
    CHECK(process.turns >= 100);
    CHECK(process.seen_for >= process.turns * nanoseconds(CostBudget::turn));
    // It is not held against it for long.
    process.seen = process.rest = of_tick(1);
    process.run(2min);
    CHECK_FALSE(process.budget.is_in_turns());
}

TEST_CASE("a process that loses more than is assumed is seen less") {
    const auto seen_for = [](double times) {
        CostBudget budget(percent, 1h, 0s);
        nanoseconds cost{};
        nanoseconds seen{};
        bool is_seen = true;
        for (nanoseconds now = 1h; now < 3h; now += tick) {
            is_seen = budget.note(now + tick, cost += is_seen ? of_tick(20) : 0ns, times);
            seen += is_seen ? tick : 0ns;
        }
        return static_cast<double>(seen.count());
    };
    const double assumed = seen_for(2);
    CHECK(seen_for(4) < 0.6 * assumed);
    CHECK(seen_for(4) > 0.4 * assumed);
    CHECK(seen_for(1) > 1.6 * assumed);
}

TEST_CASE("a clock that stands still and a cost that falls change nothing") {
    CostBudget budget(percent, 1h, 1s);
    CHECK(budget.note(1h, 1s));
    CHECK(budget.note(1h, 0s));
    CHECK(budget.note(1h + 1s, 0s));
    CHECK_FALSE(budget.is_in_turns());
}

// What the probe costs each process, from the kernel's table and the record of the end.

TEST_CASE("what CUDA calls cost a process is on the page, and its end brings the rest") {
    Fixture fixture;
    fixture.calls(launch(0x10, 1));
    CHECK(fixture.page("overhead_seconds_total").empty());
    fixture.cost_ns = 500;
    CHECK(fixture.sum("overhead_seconds_total") == 500);
    fixture.allocations(exited(9'000, 0, 700));
    fixture.cost_ns = 0;
    fixture.apply_all();
    CHECK(fixture.sum("overhead_seconds_total") == 700);
}

TEST_CASE("what an earlier exporter has shown of a process's cost is not shown again") {
    Fixture fixture({.started = 1h});
    fixture.cost_ns = 500;
    fixture.calls(launch(0x10, 1));
    CHECK(fixture.page("overhead_seconds_total").empty());
    fixture.cost_ns = 650;
    CHECK(fixture.sum("overhead_seconds_total") == 150);
    fixture.allocations(exited(9'000, 0, 700));
    fixture.apply_all();
    CHECK(fixture.sum("overhead_seconds_total") == 200);
}

TEST_CASE("the cost of CUDA calls is no more than the process has run, also after its end") {
    Fixture fixture;
    auto callbacks = fixture.callbacks();
    callbacks.overhead = std::make_shared<OverheadLimits>([](auto) { return 450ns; });
    fixture.aggregator = std::make_unique<CudaAggregator>(fixture.settings, callbacks);
    fixture.calls(launch(0x10, 1));
    fixture.cost_ns = 500;
    CHECK(fixture.sum("overhead_seconds_total") == 450);
    fixture.allocations(exited(9'000, 0, 700, 650));
    fixture.cost_ns = 0;
    fixture.apply_all();
    CHECK(fixture.sum("overhead_seconds_total") == 650);
}
