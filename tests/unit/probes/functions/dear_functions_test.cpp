// Which functions are paused because they cost a process too much, and for how long.
#include "exporter/probes/functions/limit/dear_functions.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace gpusnoop::probes;
using std::chrono::nanoseconds;

namespace {

constexpr ProcessKey dear_process{1, 10};
constexpr ProcessKey other_caller{2, 20};
constexpr FunctionPlace dearest_function{{.inode = 7}, 0x100};
constexpr FunctionPlace dear_function{{.inode = 7}, 0x200};
constexpr FunctionPlace cheap_function{{.inode = 7}, 0x300};

// Decides every second. The limit is 3 % of a process. The counted cost is half of the real one.
struct LimitedFunctions {
    nanoseconds now = 1h;
    DearFunctions functions{3, now};

    DearFunctions::Use use(FunctionPlace function, nanoseconds cost,
                           ProcessKey process = dear_process, bool can_pause = true) const {
        return {process, function, cost, can_pause};
    }

    std::vector<FunctionPlace> look(std::vector<DearFunctions::Use> uses) {
        now += 1s;
        std::vector<FunctionPlace> paused;
        for (const DearFunctions::Dear &one : functions.look(now, std::move(uses))) {
            paused.push_back(one.function);
        }
        return paused;
    }

    // As long as nothing is paused, `seconds` at most.
    std::vector<FunctionPlace> look_for(int seconds, const std::vector<DearFunctions::Use> &uses) {
        for (int i = 0; i < seconds; i++) {
            if (auto paused = look(uses); !paused.empty()) {
                return paused;
            }
        }
        return {};
    }

    // How long the pause lasts, by what is due.
    nanoseconds pause(FunctionPlace function, const std::vector<DearFunctions::Use> &others = {}) {
        functions.paused(function, now);
        const nanoseconds began = now;
        while (functions.due(now).empty()) {
            CHECK(look(others).empty());
        }
        CHECK(functions.due(now) == std::vector{function});
        functions.resumed(function, now);
        CHECK(functions.due(now).empty());
        return now - began;
    }
};

}  // namespace

TEST_CASE("functions that cost less than the limit are never paused") {
    LimitedFunctions limited;
    CHECK(limited
              .look_for(3'600,
                        {limited.use(dearest_function, 10ms), limited.use(cheap_function, 4ms)})
              .empty());
}

TEST_CASE("a process may cost more for a moment") {
    LimitedFunctions limited;
    CHECK(limited.look_for(1, {limited.use(dearest_function, 150ms)}).empty());
    CHECK(limited.look_for(60, {limited.use(dearest_function, 1ms)}).empty());
}

TEST_CASE("the dearest function is paused first, and no more than are needed") {
    LimitedFunctions limited;
    const std::vector uses = {limited.use(cheap_function, 2ms), limited.use(dear_function, 12ms),
                              limited.use(dearest_function, 90ms)};
    CHECK(limited.look_for(60, uses) == std::vector{dearest_function});

    // What is left is above the limit.
    LimitedFunctions tight;
    CHECK(tight.look_for(60, {tight.use(cheap_function, 4ms), tight.use(dear_function, 12ms),
                              tight.use(dearest_function, 90ms)}) ==
          std::vector{dearest_function, dear_function});
}

TEST_CASE("functions of a process that costs little are paused only for another") {
    LimitedFunctions limited;
    CHECK(limited.look_for(
              60, {limited.use(dear_function, 10ms, other_caller), limited.use(cheap_function, 1ms),
                   limited.use(dearest_function, 90ms)}) == std::vector{dearest_function});
}

TEST_CASE("a function that two processes call much is paused once, for both") {
    LimitedFunctions limited;
    CHECK(
        limited.look_for(60, {limited.use(dearest_function, 80ms), limited.use(dear_function, 14ms),
                              limited.use(dearest_function, 90ms, other_caller),
                              limited.use(cheap_function, 14ms, other_caller)}) ==
        std::vector{dearest_function});
}

TEST_CASE("a paused function is said to cost all processes too much that it did") {
    LimitedFunctions limited;
    constexpr ProcessKey third{3, 30};
    std::vector<DearFunctions::Dear> dear;
    while (dear.empty()) {
        limited.now += 1s;
        dear =
            limited.functions.look(limited.now, {limited.use(dearest_function, 90ms),
                                                 limited.use(dearest_function, 90ms, other_caller),
                                                 limited.use(dearest_function, 1ms, third)});
    }
    REQUIRE(dear.size() == 1);
    CHECK(dear.front().processes == std::vector{dear_process, other_caller});
}

TEST_CASE("functions that cost next to nothing each are paused if together they cost too much") {
    LimitedFunctions limited;
    std::vector<DearFunctions::Use> uses;
    for (std::uint64_t i = 0; i < 40; i++) {
        uses.push_back(limited.use({{.inode = 7}, i}, 1'450us));  // 2.9 ms, of 30
    }
    const auto paused = limited.look_for(60, uses);
    CHECK(paused.size() == 30);  // the others cost 29 ms
}

TEST_CASE("a function that costs next to nothing is not paused for others that have to be seen") {
    LimitedFunctions limited;
    CHECK(limited
              .look_for(60, {limited.use(dearest_function, 90ms, dear_process, false),
                             limited.use(cheap_function, 1ms)})
              .empty());
}

TEST_CASE("a function that has to be seen is not paused, however dear it is") {
    LimitedFunctions limited;
    CHECK(limited.look_for(60, {limited.use(dearest_function, 90ms, dear_process, false)}).empty());
    CHECK(limited.look_for(60, {limited.use(dearest_function, 90ms, dear_process, false),
                                limited.use(cheap_function, 5ms)}) == std::vector{cheap_function});
}

TEST_CASE("a pause is twice as long each time, up to ten minutes, and short again later") {
    LimitedFunctions limited;
    const std::vector uses = {limited.use(dearest_function, 400ms)};
    for (nanoseconds expected = 1s; expected < 10min; expected *= 2) {
        REQUIRE(limited.look_for(60, uses) == std::vector{dearest_function});
        CHECK(limited.pause(dearest_function) == expected);
    }
    for (int i = 0; i < 3; i++) {
        REQUIRE(limited.look_for(60, uses) == std::vector{dearest_function});
        CHECK(limited.pause(dearest_function) == 10min);
    }
    CHECK(limited.look_for(700, {limited.use(dearest_function, 1ms)}).empty());
    REQUIRE(limited.look_for(60, uses) == std::vector{dearest_function});
    CHECK(limited.pause(dearest_function) == 1s);
}

TEST_CASE(
    "a function that costs little more than the limit costs no more than it in the long run") {
    LimitedFunctions limited;
    const std::vector uses = {limited.use(dearest_function, 22ms)};  // 44 ms a second, of 30
    const nanoseconds began = limited.now;
    nanoseconds away{};
    while (limited.now - began < 1h) {
        if (!limited.look(uses).empty()) {
            away += limited.pause(dearest_function);
        }
    }
    const nanoseconds cost = (limited.now - began - away) / 1s * 44ms;
    // And what can be saved up once.
    CHECK(cost <= (limited.now - began) / 1s * 30ms + 300ms + 44ms);
    CHECK(cost >= (limited.now - began) / 1s * 25ms);
}

TEST_CASE("a function that is tried again is no reason to pause others") {
    LimitedFunctions limited;
    const std::vector others = {limited.use(dear_function, 14ms)};
    std::vector all = others;
    all.push_back(limited.use(dearest_function, 400ms));
    for (int i = 0; i < 5; i++) {
        CHECK(limited.look_for(60, all) == std::vector{dearest_function});
        (void)limited.pause(dearest_function, others);
    }
}

TEST_CASE("while probes cannot be exchanged, they are left alone for longer and longer") {
    LimitedFunctions limited;
    const std::vector uses = {limited.use(dearest_function, 400ms),
                              limited.use(dear_function, 14ms)};
    REQUIRE(limited.look_for(60, uses) == std::vector{dearest_function});
    CHECK(limited.functions.paused(dearest_function, limited.now));
    CHECK(limited.functions.due(limited.now).empty());
    CHECK(limited.look(uses).empty());  // its calls still cost something
    REQUIRE(limited.functions.due(limited.now) == std::vector{dearest_function});
    CHECK_FALSE(limited.functions.paused(dearest_function, limited.now));
    CHECK(limited.functions.due(limited.now + 1s).empty());
    CHECK(limited.functions.due(limited.now + 2s) == std::vector{dearest_function});
    limited.functions.forget(dearest_function);
    CHECK(limited.functions.due(limited.now + 1h).empty());
}
