#include "exporter/discovery/turns.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>

using gpusnoop::discovery::Turns;
using namespace std::chrono_literals;

TEST_CASE("what a user's files took counts for less and less, and is then forgotten") {
    const auto now = Turns::Clock::now();
    Turns turns;
    CHECK(turns.is_even());
    CHECK(turns.spent_by(1000) == 0s);
    turns.spend(1000, 2s);
    turns.spend(1000, 2s);
    turns.spend(1001, 150ms);
    CHECK(turns.spent_by(1000) == 4s);
    CHECK(turns.spent_by(1001) == 150ms);
    turns.forget(now + 5s);
    CHECK(turns.spent_by(1000) == 4s);
    turns.forget(now + 12s);
    CHECK(turns.spent_by(1000) == 2s);
    CHECK(turns.spent_by(1001) == 0s);  // too little to remember
    CHECK_FALSE(turns.is_even());
    turns.forget(now + 100s);
    CHECK(turns.is_even());
}

TEST_CASE("many short times count, too, each for one user") {
    const auto now = Turns::Clock::now();
    Turns turns;
    for (int i = 0; i < 3; i++) {
        Turns::Spending outer(turns, 1000, now);
        Turns::Spending inner(turns, 1001, now + 1ms);
        Turns::Spending short_one(turns, 1002, now + 1ms);
        short_one.end(now + 1500us);
        inner.end(now + 11ms);
        Turns::Spending nobodys(turns, std::nullopt, now + 20ms);
        nobodys.end(now + 25ms);
        outer.end(now + 45ms);
    }
    CHECK(turns.spent_by(1000) == 90ms);
    CHECK(turns.spent_by(1001) == 30ms);
    CHECK(turns.spent_by(1002) == 0ms);
    CHECK(turns.is_even());
    turns.spend(1000, 10ms);
    CHECK_FALSE(turns.is_even());
}
