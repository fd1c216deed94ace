// The settings of the probe `fence`, and its events as lines.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>

#include "exporter/probes/fence/probe.h"
#include "exporter/probes/frame/registry.h"
#include "tests/unit/config/problems.h"
#include "tests/unit/probes/event_lines.h"

using namespace gpusnoop;
using namespace gpusnoop::trace;
using namespace event_lines;
using nlohmann::json;

TEST_CASE("the settings of fences are read") {
    const auto config =
        config::parse("fence: {enabled: false, max_fences: 100, ring_bytes: 64KiB}\n", "c.yaml",
                      probes::setting_blocks());
    REQUIRE(config);
    CHECK(config->of<probes::FenceConfig>() == probes::FenceConfig{false, 100, 65536});
}

TEST_CASE("what is wrong with the settings of fences is said with its place") {
    CHECK(
        test::problems("fence: {ring_bytes: 5000}\n").starts_with("c.yaml:1:21: fence.ring_bytes"));
    CHECK(test::problems("fence: {fences: 1}\n").starts_with("c.yaml:1:9: fence.fences: "));
}

TEST_CASE("what happens to a fence as a line") {
    fence_record record{};
    record.head = {ended, 1, 100, FENCE_RECORD + FENCE_wait_end};
    record.fence.context = 40'000'000'000;
    record.fence.seqno = 7;
    record.tid = 101;
    record.has_duration = 1;
    record.nanoseconds = 3'000'000;
    std::strcpy(record.names.driver, "amdgpu");
    std::strcpy(record.names.timeline, "gfx 1\x1b");
    const Event waited = event_of(record, a_traced_process(), offset);
    CHECK(parsed(waited) == of_traced({{"time", "2023-11-14T22:13:20.123461000Z"},
                                       {"duration_ns", 3'000'000},
                                       {"event", "wait_end"},
                                       {"driver", "amdgpu"},
                                       {"timeline", "gfx 1\uFFFD"},
                                       {"context", 40'000'000'000},
                                       {"seqno", 7}}));
    CHECK(columns(waited) ==
          "100 101 99 train\uFFFD wait_end 3.000ms - driver=amdgpu timeline=\"gfx 1\uFFFD\" "
          "context=40000000000 seqno=7 script=train.py\uFFFD slurm_job_id=4711");

    // Somebody's, who is not known, in an interrupt.
    record.head = {ended, 0, 0, FENCE_RECORD + FENCE_signaled};
    record.tid = 0;
    record.has_duration = 0;
    const json signaled = parsed(event_of(record, {}, offset));
    CHECK(signaled["event"] == "signaled");
    CHECK(signaled["duration_ns"].is_null());
    CHECK(signaled["pid"].is_null());
    CHECK(signaled["tid"].is_null());
    CHECK(signaled["ppid"].is_null());
    CHECK(signaled["comm"] == "unknown");
}
