#include "exporter/discovery/turns.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>

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
