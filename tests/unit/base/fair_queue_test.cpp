#include "exporter/base/fair_queue.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>
#include <vector>

using namespace gpusnoop;
using namespace std::chrono_literals;

namespace {

using Queue = FairQueue<int>;
constexpr Queue::Owner greedy{1000, 1};
constexpr Queue::Owner polite{1001, 2};

void push_all(Queue &queue, const Queue::Owner &owner, int first, int count) {
    for (int i = 0; i < count; i++) {
        REQUIRE_FALSE(queue.push(owner, first + i));
    }
}

}  // namespace

TEST_CASE("questions of one process keep their order", "[fair_queue]") {
    Queue queue(10);
    CHECK(queue.empty());
    CHECK(queue.take(5).items.empty());
    push_all(queue, greedy, 0, 4);
    Queue::Turn turn = queue.take(3);
    CHECK(turn.items == std::vector{0, 1, 2});
    queue.end_turn(turn.owner, 1ms, {1, 2});
    CHECK(queue.take(10).items == std::vector{1, 2, 3});
    CHECK(queue.empty());
}

TEST_CASE("a user waits for one turn of another, however many questions that one has",
          "[fair_queue]") {
    Queue queue(10'000);
    push_all(queue, greedy, 0, 5'000);
    for (int round = 0; round < 100; round++) {
        const Queue::Turn slow = queue.take(10);
        CHECK(slow.owner.user == greedy.user);
        queue.end_turn(slow.owner, 1s, {});
        push_all(queue, polite, round, 1);
        const Queue::Turn quick = queue.take(10);
        CHECK(quick.owner.user == polite.user);
        CHECK(quick.items == std::vector{round});
        queue.end_turn(quick.owner, 1ms, {});
    }
}

TEST_CASE("processes that a user starts do not have further turns", "[fair_queue]") {
    Queue queue(10'000);
    for (std::uint32_t process = 100; process < 200; process++) {
        REQUIRE_FALSE(queue.push({greedy.user, process}, 1));
    }
    const Queue::Turn first = queue.take(10);
    queue.end_turn(first.owner, 2s, {});
    push_all(queue, polite, 7, 1);
    CHECK(queue.take(10).items == std::vector{7});
}

TEST_CASE("of two processes of one user, the slow one waits", "[fair_queue]") {
    Queue queue(100);
    const Queue::Owner quick{greedy.user, 9};
    push_all(queue, greedy, 0, 50);
    Queue::Turn turn = queue.take(1);
    queue.end_turn(turn.owner, 2s, {});
    push_all(queue, quick, 60, 3);
    for (int i = 0; i < 3; i++) {
        turn = queue.take(1);
        CHECK(turn.items == std::vector{60 + i});
        queue.end_turn(turn.owner, 1ms, {});
    }
    CHECK(queue.take(1).items == std::vector{1});
}

TEST_CASE("who was idle has not saved up turns", "[fair_queue]") {
    Queue queue(100);
    push_all(queue, greedy, 0, 50);
    for (int i = 0; i < 10; i++) {
        queue.end_turn(queue.take(1).owner, 1s, {});
    }
    push_all(queue, polite, 60, 20);
    int of_polite = 0;
    for (int i = 0; i < 10; i++) {
        const Queue::Turn turn = queue.take(1);
        of_polite += turn.owner.user == polite.user ? 1 : 0;
        queue.end_turn(turn.owner, 1s, {});
    }
    CHECK(of_polite >= 5);
    CHECK(of_polite <= 6);
}

TEST_CASE("a full queue refuses those who filled it", "[fair_queue]") {
    Queue queue(100);
    push_all(queue, greedy, 0, 100);
    CHECK(queue.push(greedy, 100) == 100);
    // The others get half of it.
    for (int i = 0; i < 50; i++) {
        const std::optional<int> refused = queue.push(polite, 1000 + i);
        REQUIRE(refused.has_value());
        CHECK(*refused == 99 - i);
    }
    CHECK(queue.push(polite, 2000) == 2000);
    CHECK(queue.push({greedy.user, 77}, 3000) == 49);  // a process of the same user
}

TEST_CASE("forgetting who is idle changes no turn", "[fair_queue]") {
    Queue queue(100);
    for (std::uint32_t i = 0; i < 5'000; i++) {
        REQUIRE_FALSE(queue.push({i, i}, static_cast<int>(i)));
        const Queue::Turn turn = queue.take(1);
        CHECK(turn.items == std::vector{static_cast<int>(i)});
        queue.end_turn(turn.owner, 1ms, {});
    }
    push_all(queue, polite, 1, 1);
    CHECK(queue.take(1).items == std::vector{1});
}
