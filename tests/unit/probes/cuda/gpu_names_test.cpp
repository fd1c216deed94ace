// The label gpu, when what a process has opened is seen only later.
#include "exporter/probes/cuda/gpu_names.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <vector>

#include "tests/unit/discovery/made_up_gpus.h"

using namespace gpusnoop;
using discovery::VisibleGpus;

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
    probes::GpuNames names(seen_with({}), [&] {
        looks++;
        return std::optional(seen_with({3}));
    });
    CHECK(looks == 0);
    CHECK(names.name_of(0) == "3");
    CHECK(names.name_of(std::nullopt) == "3");
    CHECK(names.name_of(1) == "unknown");
    for (int more = 0; more < 100; more++) {
        CHECK(names.name_of(0) == "3");
    }
    CHECK(looks == 4);
}

TEST_CASE("what a device cgroup says needs no other look") {
    probes::GpuNames names(seen_with({}, discovery::Minors{3}), [] {
        FAIL("looked again");
        return std::nullopt;
    });
    CHECK(names.name_of(0) == "3");
}

TEST_CASE("a process that has ended has what was seen of it before") {
    int looks = 0;
    probes::GpuNames names(seen_with({}), [&] {
        looks++;
        return looks == 1 ? std::optional(seen_with({3})) : std::nullopt;
    });
    CHECK(names.name_of(0) == "3");
    CHECK(names.name_of(0) == "3");
    CHECK(names.name_of(0) == "3");
    CHECK(looks == 2);
}
