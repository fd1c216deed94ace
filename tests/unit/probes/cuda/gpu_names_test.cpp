// The label gpu, when what a process has opened is seen only later.
#include "exporter/probes/cuda/process.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "tests/unit/discovery/made_up_gpus.h"

using namespace gpusnoop;
using discovery::VisibleGpus;
using namespace std::chrono_literals;

namespace {

// A process with CUDA_VISIBLE_DEVICES=0 that may open /dev/nvidia3 alone: where that cannot be
// read, and where it can.
VisibleGpus seen_with(const discovery::Minors &opened,
                      const std::optional<discovery::Minors> &listed = std::nullopt) {
    return VisibleGpus::of(discovery::with_list("0"),
                           {.existing = discovery::gpus(),
                            .listed = listed,
                            .is_hidden = true,
                            .opened = opened,
                            .opened_instances = {}},
                           discovery::gpus());
}

}  // namespace

TEST_CASE("a process that had opened no GPU is looked at again when a label is asked for") {
    int looks = 0;
    probes::GpuNames::Clock::time_point now{};
    probes::GpuNames names(
        seen_with({}),
        [&]() -> Result<VisibleGpus> {
            looks++;
            return seen_with({3});
        },
        [&] { return now; });
    CHECK(looks == 0);
    CHECK(names.name_of(0) == "3");
    CHECK(names.name_of(std::nullopt) == "3");
    CHECK(names.name_of(1) == "unknown");
    CHECK(looks == 1);
    for (const auto &[after, expected] :
         {std::pair{999ms, 1}, {1ms, 2}, {1999ms, 2}, {1ms, 3}, {4000ms, 4}, {60'000ms, 4}}) {
        now += after;
        CHECK(names.name_of(0) == "3");
        CHECK(looks == expected);
    }
}

TEST_CASE("a process that does not answer has what was seen before, and is asked again") {
    int looks = 0;
    probes::GpuNames::Clock::time_point now{};
    probes::GpuNames names(
        seen_with({3}),
        [&]() -> Result<VisibleGpus> {
            looks++;
            return looks < 20 ? fail("it does not answer", ETIMEDOUT)
                              : Result<VisibleGpus>(seen_with({3}, discovery::Minors{3}));
        },
        [&] { return now; });
    for (int asked = 0; asked < 30; asked++) {
        CHECK(names.name_of(0) == "3");
        now += 1s;
    }
    CHECK(looks == 20);
}

TEST_CASE("what a device cgroup says needs no other look") {
    probes::GpuNames names(seen_with({}, discovery::Minors{3}), []() -> Result<VisibleGpus> {
        FAIL("looked again");
        return fail("", ESRCH);
    });
    CHECK(names.name_of(0) == "3");
}

TEST_CASE("a process that has ended has what was seen of it before") {
    int looks = 0;
    probes::GpuNames::Clock::time_point now{};
    probes::GpuNames names(
        seen_with({}),
        [&]() -> Result<VisibleGpus> {
            looks++;
            return looks == 1 ? Result<VisibleGpus>(seen_with({3})) : fail("", ESRCH);
        },
        [&] { return now; });
    for (int asked = 0; asked < 5; asked++) {
        CHECK(names.name_of(0) == "3");
        now += 10s;
    }
    CHECK(looks == 2);
}
