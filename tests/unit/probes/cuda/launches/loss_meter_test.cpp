// What a process loses over what it is said to cost.
#include "exporter/probes/cuda/governor/loss_meter.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <random>

using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using Catch::Approx;
using std::chrono::nanoseconds;

namespace {

// A program whose steps take `step`, and more by `times` of what the probes are said to cost in
// each where its launches are observed. A step has one call that is always seen.
struct LossyProgram {
    double times;
    nanoseconds cost_of_step = 100us;
    nanoseconds cost_of_call = 5us;
    double unevenness = 0;  // of a window's steps, as a share of their time
    nanoseconds step = 1ms;

    std::mt19937 random{7};
    LossMeter meter{};
    LossMeter::Counts counts{};

    void run(nanoseconds time, bool is_turn) {
        const double part = 1 + unevenness * std::uniform_real_distribution<double>(-1, 1)(random);
        const double ns = part * static_cast<double>(step.count()) +
                          static_cast<double>(cost_of_call.count()) +
                          (is_turn ? times * static_cast<double>(cost_of_step.count()) : 0);
        const auto steps = static_cast<std::uint64_t>(static_cast<double>(time.count()) / ns);
        counts.at += nanoseconds(static_cast<std::int64_t>(static_cast<double>(steps) * ns));
        counts.calls += steps;
        counts.cost += static_cast<std::int64_t>(steps) *
                       (cost_of_call + (is_turn ? cost_of_step : nanoseconds(0)));
    }
    void pause(nanoseconds time = 3s) {
        meter.pause_begins(counts);
        run(time, false);
        meter.pause_ends(counts);
    }
    void take_turns(int turns, nanoseconds turn = 300ms) {
        for (int i = 0; i < turns; i++) {
            run(turn, true);
            pause();
        }
    }
};

}  // namespace

TEST_CASE("what a process loses is known after thirty turns between pauses") {
    LossyProgram program{.times = 3};
    program.pause();
    program.take_turns(29);
    CHECK_FALSE(program.meter.factor());
    program.take_turns(1);
    const auto factor = program.meter.factor();
    REQUIRE(factor);
    CHECK(factor->estimate == Approx(3).epsilon(0.02));
    CHECK(factor->error < 0.1);
    CHECK(factor->is_certain());
}

TEST_CASE("of a program that runs unevenly, the loss is within the error") {
    for (const double times : {0.5, 1.0, 2.5, 4.0}) {
        CAPTURE(times);
        LossyProgram program{.times = times, .unevenness = 0.2};
        program.pause();
        program.take_turns(100);
        const auto factor = program.meter.factor();
        REQUIRE(factor);
        CAPTURE(factor->estimate, factor->error);
        CHECK(factor->estimate - 1.5 * factor->error < times);
        CHECK(factor->estimate + 1.5 * factor->error > times);
        CHECK(factor->error > 0);
    }
}

TEST_CASE("the loss of a program whose windows differ by more than it loses is not certain") {
    LossyProgram program{.times = 3, .cost_of_step = 10us, .unevenness = 0.8};
    program.pause();
    program.take_turns(60);
    REQUIRE(program.meter.factor());
    CHECK_FALSE(program.meter.factor()->is_certain());
}

TEST_CASE("a program that the GPU limits loses nothing, and that is no large loss") {
    LossyProgram program{.times = 0};
    program.pause();
    program.take_turns(40);
    REQUIRE(program.meter.factor());
    CHECK(program.meter.factor()->estimate < 0.1);
}

TEST_CASE("a turn with few other calls, or without a pause on either side, is not compared") {
    LossyProgram program{.times = 3};
    program.take_turns(30);  // the first turn has no pause before it
    CHECK_FALSE(program.meter.factor());
    for (int i = 0; i < 100; i++) {
        program.run(15ms, true);  // fewer than twenty steps
        program.pause();
    }
    CHECK_FALSE(program.meter.factor());
    // The launches are seen to their end for a while.
    program.meter.turns_end();
    program.run(10s, true);
    program.pause();
    CHECK_FALSE(program.meter.factor());
    program.take_turns(1);
    CHECK(program.meter.factor());
}

TEST_CASE("only the last comparisons count") {
    LossyProgram program{.times = 1};
    program.pause();
    program.take_turns(100);
    program.times = 4;
    program.take_turns(static_cast<int>(LossMeter::most_comparisons));
    CHECK(program.meter.factor()->estimate == Approx(4).epsilon(0.02));
}
