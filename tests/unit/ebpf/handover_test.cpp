#include "exporter/ebpf/handover.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>

using namespace gpusnoop;
using namespace std::chrono_literals;

TEST_CASE("a program that hangs while it ends, ends", "[handover]") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::alarm(60);  // without the limit, this ends it by a signal
        const ebpf::Handover ending(1ms, 20ms);
        for (;;) {
            ::pause();
        }
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a program that ends in time runs to its own exit", "[handover]") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        {
            const ebpf::Handover ending(1h, 2h);
        }
        ::_exit(7);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 7);
}
