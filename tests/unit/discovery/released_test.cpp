#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>

#include "exporter/discovery/failed_files.h"
#include "exporter/discovery/released.h"
#include "exporter/discovery/turns.h"

using gpusnoop::discovery::FailedFiles;
using Next = FailedFiles::Next;
using namespace gpusnoop;
using discovery::Released;
using gpusnoop::discovery::Turns;
using namespace std::chrono_literals;

TEST_CASE(
    "failed files: a process with some waits for the next look, and with many for the rescan") {
    FailedFiles failed;
    CHECK(failed.next(1) == Next::now);
    CHECK_FALSE(failed.has(1));
    int tried = 0;
    for (int look = 0; look < 100; look++) {
        failed.begin_look();
        while (failed.next(1) == Next::now) {
            failed.note(1);
            tried++;
        }
        CHECK(failed.next(2) == Next::now);
    }
    CHECK(tried == FailedFiles::max_between_rescans);
    CHECK(failed.next(1) == Next::next_rescan);
    failed.begin_rescan();
    CHECK(failed.next(1) == Next::now);
    for (int i = 0; i < FailedFiles::max_in_look; i++) {
        failed.note(1);
    }
    CHECK(failed.has(1));
    CHECK(failed.next(1) == Next::next_look);
}

TEST_CASE("a file is held as long as one of the released processes maps it") {
    const FileId shared{.inode = 1};
    const FileId own{.inode = 2};
    Released released;
    CHECK(released.is_empty());
    const auto until = Released::Clock::now() + std::chrono::minutes(1);
    released.add(10, {std::chrono::seconds(1), until});
    released.add(11, {std::chrono::seconds(2), until});
    released.hold(shared, 10);
    released.hold(shared, 11);
    released.hold(own, 10);
    CHECK(released.files_of(10).size() == 2);
    CHECK(released.remove(10));
    CHECK(released.holds(shared));
    CHECK_FALSE(released.holds(own));
    CHECK_FALSE(released.has(10));
    CHECK_FALSE(released.remove(10));
    CHECK(released.remove(11));
    CHECK_FALSE(released.holds(shared));
    CHECK(released.is_empty());
}

TEST_CASE("a process that is released again is so for the new time") {
    Released released;
    const auto now = Released::Clock::now();
    released.add(10, {std::chrono::seconds(1), now});
    released.add(10, {std::chrono::seconds(1), now + std::chrono::minutes(1)});
    REQUIRE(released.processes().size() == 1);
    CHECK(released.processes().at(10).until == now + std::chrono::minutes(1));
}

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
