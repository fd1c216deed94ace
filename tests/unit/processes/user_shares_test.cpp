// Users who can take the ids of others.
#include "exporter/processes/user_shares.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <fstream>

#include "tests/harness/machine/directory.h"

using namespace gpusnoop::processes;
using namespace std::chrono_literals;

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
