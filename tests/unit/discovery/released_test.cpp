#include "exporter/discovery/released.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>

using namespace gpusnoop;
using discovery::Released;

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
