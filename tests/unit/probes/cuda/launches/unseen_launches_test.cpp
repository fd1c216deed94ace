#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <random>

#include "exporter/probes/cuda/governor/unseen_launches.h"

using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

// A program that makes `launches` a second, and a wait after each `launches_a_wait` of them.
struct UnseenProgram {
    double launches_a_second;
    double launches_a_wait;  // 0: it does not wait
    nanoseconds cost_of_launch{};
    double reported = 1;  // of that cost

    UnseenLaunches estimate{};
    UnseenLaunches::Counts counts{};
    double made = 0;
    double counted = 0;

    void run(nanoseconds time, bool is_turn) {
        const double seconds = std::chrono::duration<double>(time).count();
        const double slower =
            is_turn ? 1 + launches_a_second * std::chrono::duration<double>(cost_of_launch).count()
                    : 1;
        const double launches = seconds * launches_a_second / slower;
        made += launches;
        counted += is_turn ? launches : 0;
        counts.at += time;
        counts.launches = static_cast<std::uint64_t>(counted);
        counts.calls = launches_a_wait > 0 ? static_cast<std::uint64_t>(made / launches_a_wait) : 0;
        counts.cost = nanoseconds(static_cast<std::int64_t>(
            reported * counted * static_cast<double>(cost_of_launch.count())));
    }
    void pause(nanoseconds time) {
        estimate.pause_begins(counts);
        run(time, false);
        estimate.note(counts);
    }
    void turn(nanoseconds time) {
        estimate.turn_begins(counts);
        run(time, true);
    }
    void take_turns(int times, nanoseconds pauses, nanoseconds turns) {
        for (int i = 0; i < times; i++) {
            pause(pauses);
            turn(turns);
        }
    }
    [[nodiscard]] double estimated_over_made() const {
        return static_cast<double>(estimate.total()) / (made - counted);
    }
};

bool is_about_one(double ratio) {
    return ratio > 0.98 && ratio < 1.02;
}

}  // namespace

TEST_CASE(
    "launches in pauses are estimated by the waits of a program that is slower in its turns") {
    UnseenProgram program{50'000, 100, 10us};
    program.take_turns(20, 5s, 200ms);
    program.pause(5s);
    CHECK(is_about_one(program.estimated_over_made()));
}

TEST_CASE(
    "launches of a program that only launches are estimated by the time that it had for them") {
    UnseenProgram program{100'000, 0, 1us};
    program.take_turns(10, 3s, 100ms);
    program.pause(1s);
    CHECK(is_about_one(program.estimated_over_made()));
}

TEST_CASE("launches of a program that only launches are within the bounds of the estimate") {
    for (const double reported : {0.5, 0.7, 1.0, 1.5}) {
        CAPTURE(reported);
        UnseenProgram program{100'000, 0, 4us, reported};
        program.take_turns(10, 3s, 100ms);
        program.pause(1s);
        const double unseen = program.made - program.counted;
        CHECK(static_cast<double>(program.estimate.least()) < 0.98 * unseen);
        CHECK(static_cast<double>(program.estimate.most()) > 0.98 * unseen);
    }
    // A launch that costs nothing: it is no faster in pauses.
    UnseenProgram program{100'000, 0, 0us};
    program.take_turns(10, 3s, 100ms);
    program.pause(1s);
    CHECK(program.estimate.least() == program.estimate.total());
    CHECK(program.estimate.most() == program.estimate.total());
}

TEST_CASE("what waits tell of launches has no bounds, whatever the probes cost") {
    UnseenProgram program{50'000, 100, 10us, 0.3};
    program.take_turns(20, 5s, 200ms);
    program.pause(5s);
    CHECK(is_about_one(program.estimated_over_made()));
    CHECK(program.estimate.least() == program.estimate.total());
    CHECK(program.estimate.most() == program.estimate.total());
}

TEST_CASE("before its first turn ends, nothing is estimated, and then the pause before it, too") {
    UnseenProgram program{10'000, 10, 1us};
    program.pause(4s);
    program.turn(1s);
    CHECK(program.estimate.total() == 0);
    program.pause(1s);
    CHECK(is_about_one(program.estimated_over_made()));
}

TEST_CASE("a program that rests in its pause has launched nothing there") {
    UnseenProgram program{10'000, 10, 1us};
    program.pause(1s);
    program.turn(1s);
    program.pause(1s);
    const auto before = program.estimate.total();
    program.counts.at += 10s;
    program.estimate.note(program.counts);
    CHECK(program.estimate.total() == before);
}

TEST_CASE("the estimate never falls, whatever the numbers of launches and waits do") {
    std::mt19937 random(7);
    UnseenProgram program{10'000, 10, 1us};
    std::uint64_t last = 0;
    for (int i = 0; i < 1'000; i++) {
        program.launches_a_second = static_cast<double>(random() % 100'000);
        program.launches_a_wait = static_cast<double>(random() % 300);
        if (random() % 3 == 0) {
            program.turn(std::chrono::milliseconds(random() % 1'000));
        } else {
            program.pause(std::chrono::milliseconds(random() % 5'000));
        }
        REQUIRE(program.estimate.total() >= last);
        last = program.estimate.total();
    }
}

TEST_CASE("few waits in each turn are enough when there were many turns") {
    // Four waits a second, and a cost that is far too low: its rate alone says little.
    UnseenProgram program{10'000, 2'500, 100us, 0.1};
    program.take_turns(30, 2s, 500ms);
    program.pause(2s);
    const double ratio = program.estimated_over_made();
    CHECK(ratio > 0.9);
    CHECK(ratio < 1.1);
}

TEST_CASE("after the end of a pause, nothing is added, whatever the process does then") {
    UnseenProgram program{10'000, 10, 1us};
    program.pause(1s);
    program.turn(1s);
    program.pause(1s);
    program.estimate.pause_ends(program.counts);
    program.estimate.turns_end();
    const auto total = program.estimate.total();
    for (int i = 0; i < 100; i++) {
        program.run(1s, true);
        program.estimate.note(program.counts);
    }
    CHECK(program.estimate.total() == total);
}
