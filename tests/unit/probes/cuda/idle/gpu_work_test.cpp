#include "exporter/probes/cuda/idle/idle_held.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>

using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

GpuWork::Last on(const GpuWork &work, std::int32_t device) {
    return work.last_on([device](std::int32_t other) { return other == device || other < 0; });
}

}  // namespace

TEST_CASE("a kernel has ended when a later call that waits has returned") {
    GpuWork work;
    CHECK(on(work, 0).at == 0s);
    CHECK(on(work, 0).has_ended);
    work.launched(0, 5s);
    CHECK(on(work, 0).at == 5s);
    CHECK_FALSE(on(work, 0).has_ended);
    work.waited(0, 4s);  // another thread's, which began before
    CHECK_FALSE(on(work, 0).has_ended);
    work.waited(0, 6s);
    CHECK(on(work, 0).has_ended);
    CHECK(on(work, 0).at == 5s);
    work.launched(0, 3s);  // records come in any order
    CHECK(on(work, 0).at == 5s);
    CHECK(on(work, 0).has_ended);
}

TEST_CASE("a copy is work that ends soon") {
    GpuWork work;
    work.copied(0, 5s);
    CHECK(on(work, 0).at == 5s);
    CHECK(on(work, 0).has_ended);
    work.launched(0, 6s);
    work.copied(0, 7s);
    CHECK(on(work, 0).at == 7s);
    CHECK_FALSE(on(work, 0).has_ended);
}

TEST_CASE("a wait is for one device, unless either is unknown") {
    GpuWork work;
    work.launched(0, 1s);
    work.launched(1, 1s);
    work.waited(0, 2s);
    CHECK(on(work, 0).has_ended);
    CHECK_FALSE(on(work, 1).has_ended);
    work.waited(-2, 3s);
    CHECK(on(work, 1).has_ended);
    work.launched(-1, 4s);
    CHECK(on(work, 0).at == 4s);
    CHECK_FALSE(on(work, 0).has_ended);
    work.waited(1, 5s);
    CHECK(on(work, 0).has_ended);
}

TEST_CASE("launches that are only counted were made between two looks") {
    GpuWork work;
    work.launched_lately(0);
    CHECK(on(work, 0).at == 0s);
    work.settle(9s, 10s);
    CHECK(on(work, 0).at == 10s);
    CHECK_FALSE(on(work, 0).has_ended);
    work.settle(10s, 11s);  // none since
    CHECK(on(work, 0).at == 10s);
    work.waited(0, 9s);
    CHECK(on(work, 0).has_ended);
}
