// Names of users, from the file of local users.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/processes/user_names.h"
#include "exporter/processes/user_shares.h"
#include "tests/harness/machine/directory.h"

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

// Users who can take the ids of others.

TEST_CASE("ids that a user was given have that user's share") {
    const harness::TemporaryDirectory etc;
    SubordinateUsers users(etc.path().string());
    const SubordinateUsers::Time start{};
    CHECK(users.owner_of(100'000, start) == 100'000);
    std::ofstream(etc / "passwd") << "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:\n"
                                     "kubelet:x:998:998::/:\nnobody:x:65534:65534::/:\n";
    std::ofstream(etc / "subuid") << "alice:100000:65536\n1001:165536:65536\nkubelet:300000:65536\n"
                                     "root:400000:65536\nnobody:500000:10\nghost:600000:10\n"
                                     "alice:x:1\nalice:700000\n:800000:10\nalice:900000:0\n";
    CHECK(users.owner_of(100'000, start + 59s) == 100'000);  // not read again yet
    const auto later = start + 60s;
    CHECK(users.owner_of(99'999, later) == 99'999);
    CHECK(users.owner_of(100'000, later) == 1000);
    CHECK(users.owner_of(165'535, later) == 1000);
    CHECK(users.owner_of(165'536, later) == 1001);
    CHECK(users.owner_of(1000, later) == 1000);
    // Shared by containers of several users.
    CHECK(users.owner_of(300'005, later) == 300'005);
    CHECK(users.owner_of(400'005, later) == 400'005);
    CHECK(users.owner_of(500'005, later) == 500'005);
    // Lines that give nothing to anybody.
    for (const std::uint32_t uid : {600'000U, 700'000U, 800'000U, 900'000U}) {
        CHECK(users.owner_of(uid, later) == uid);
    }
}

TEST_CASE("a process has its own user's share, unless that user's id is another's") {
    CHECK(sharing_user_of(static_cast<std::uint32_t>(::getpid())) == sharing_user(::getuid()));
    CHECK_FALSE(sharing_user_of(1U << 23U));  // no process
}

TEST_CASE("what one user has used up is left for others") {
    UserQuota quota(2);
    CHECK(quota.take(1000));
    CHECK(quota.take(1000));
    CHECK_FALSE(quota.take(1000));
    CHECK(quota.take(1001));
    CHECK(quota.take({}));
    CHECK_FALSE(quota.take(1000));
}
