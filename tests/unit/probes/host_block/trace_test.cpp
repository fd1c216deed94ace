// Requests to block devices as lines.
#include "exporter/probes/host_block/probe.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>

#include "tests/unit/probes/event_lines.h"

using namespace gpusnoop;
using namespace event_lines;
using nlohmann::json;

namespace {

json block_line(std::int32_t error) {
    const block_record record = {
        .head = {.at_ns = ended, .since_ns = 1, .tgid = 100, .type = 0},
        .took_ns = 1'000,
        .queued_ns = 500,
        .bytes = 4096,
        .tid = 101,
        .device = 0,
        .operation = BLOCK_WRITE,
        .role = FOLLOWED_WORKER,
        .error = error,
    };
    return parsed(trace::event_of(record, "nvme0n1", a_traced_process(), offset));
}

}  // namespace

TEST_CASE("a block request begins when the process makes it, and takes as long as the device") {
    CHECK(block_line(0) == json({{"time", "2023-11-14T22:13:20.123459500Z"},
                                 {"duration_ns", 1'000},
                                 {"pid", 100},
                                 {"tid", 101},
                                 {"ppid", 99},
                                 {"comm", "train\uFFFD"},
                                 {"script", "train.py\uFFFD"},
                                 {"container_id", container},
                                 {"slurm_job_id", "4711"},
                                 {"user", "alice"},
                                 {"op", "write"},
                                 {"role", "worker"},
                                 {"device", "nvme0n1"},
                                 {"bytes", 4096},
                                 {"queued_ns", 500},
                                 {"error", nullptr}}));
}

TEST_CASE("the error of a block request has the kernel's name for it") {
    CHECK(block_line(2)["error"] == "timeout");
    CHECK(block_line(10)["error"] == "I/O");
    CHECK(block_line(77)["error"] == "status 77");
    CHECK(block_line(-5)["error"] == "EIO");
}
