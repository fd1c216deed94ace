#include "exporter/system/priority.h"

#include <sys/resource.h>

#include <catch2/catch_test_macros.hpp>
#include <thread>

namespace {

int niceness() {
    return ::getpriority(PRIO_PROCESS, 0);  // of this thread
}

}  // namespace

TEST_CASE("a thread is preferred for a while, and is then as it was") {
    std::thread([] {
        REQUIRE(::setpriority(PRIO_PROCESS, 0, niceness() + 5) == 0);
        const int before = niceness();
        const bool is_allowed = gpusnoop::prefer_this_thread(before - 1);
        const int now = niceness();
        CHECK(now == (is_allowed ? before - 1 : before));
        {
            const gpusnoop::Preferred preferred(now - 1);
            CHECK(niceness() == (is_allowed ? now - 1 : now));
            // One that is preferred already stays so.
            const gpusnoop::Preferred less(now + 1);
            CHECK(niceness() == (is_allowed ? now - 1 : now));
        }
        CHECK(niceness() == now);
    }).join();
}

TEST_CASE("a preferred thread is for a while as the process's first one, and preferred again") {
    std::thread([] {
        const int ordinary = niceness();
        const bool is_allowed = gpusnoop::prefer_this_thread(ordinary - 1);
        const int before = niceness();
        {
            const gpusnoop::Unpreferred unpreferred(true);
            CHECK(niceness() == ordinary);
        }
        CHECK(niceness() == (is_allowed ? ordinary - 1 : ordinary));
        {
            const gpusnoop::Unpreferred unwanted(false);
            CHECK(niceness() == before);
        }
        CHECK(niceness() == before);
    }).join();
}
