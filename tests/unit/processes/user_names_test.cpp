// Names of users, from the file of local users.
#include "exporter/processes/user_names.h"

#include <sys/mman.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <fstream>
#include <string>

#include "exporter/base/fd.h"

using namespace gpusnoop::processes;
using namespace std::chrono_literals;

TEST_CASE("users are named as the file of users says, which is read once a minute at most") {
    const gpusnoop::Fd file(::memfd_create("passwd", MFD_CLOEXEC));
    REQUIRE(file.get() >= 0);
    const std::string path = "/proc/self/fd/" + std::to_string(file.get());
    const auto write = [&](const std::string &text) { std::ofstream(path) << text; };
    UserNames users(path);
    const UserNames::Time start{};
    CHECK(UserNames("/nonexistent").of(0, start).empty());
    CHECK(users.of(0, start).empty());
    write("root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:\n");
    CHECK(users.of(0, start + 59s).empty());
    CHECK(users.of(0, start + 60s) == "root");
    CHECK(users.of(1000, start + 61s) == "alice");
    CHECK(users.of(1001, start + 62s).empty());
    write("bob:x:1000:1000::/home/bob:\n");
    CHECK(users.of(1000, start + 63s) == "alice");
    CHECK(users.of(1000, start + 120s) == "bob");
    CHECK(users.of(0, start + 121s).empty());
    // Lines that are no user's, and a second name of a user.
    write("\n#\n+::::::\n:x:5:\na:x:\nb:x:-1:\nc:x:7x:\nd:x:4294967296:\ne:x:6:\nf:x:6:\ng:x:8");
    CHECK(users.of(6, start + 200s) == "e");
    CHECK(users.of(8, start + 201s) == "g");
    CHECK(users.of(5, start + 201s).empty());
    CHECK(users.of(7, start + 201s).empty());
    CHECK(users.of(4294967295, start + 201s).empty());
}
