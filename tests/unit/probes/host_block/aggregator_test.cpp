#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/host_block/aggregator.h"
#include "exporter/probes/host_block/probe.h"
#include "tests/unit/probes/event_lines.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace event_lines;
using nlohmann::json;

TEST_CASE("block requests count by what came since, by device, operation and role") {
    HostBlockAggregator aggregator({.budget = [](std::string_view) { return 100U; },
                                    .retention = std::chrono::seconds(60),
                                    .look_up = [](ProcessIdentity &) { return true; }});
    block_key key{};
    key.since_ns = 10;
    key.tgid = 7;
    key.operation = BLOCK_READ;
    key.role = FOLLOWED_WORKER;
    block_key wrong = key;
    wrong.operation = BLOCK_OPERATIONS;
    block_times times{};
    times.durations[3] = 2;
    times.nanoseconds = 700'000;
    times.bytes = 8192;
    aggregator.on_times(key, times, "sda");
    aggregator.on_times(key, times, "sda");
    aggregator.on_times(wrong, times, "sda");
    times.durations[BLOCK_BUCKETS - 1] = 1;
    times.nanoseconds = 6'000'700'000;
    times.bytes = 12'288;
    aggregator.on_times(key, times, "sda");
    key.operation = BLOCK_WRITE;
    aggregator.on_times(key, times, "sdb");

    std::size_t seen = 0;
    for (const auto &snapshot : aggregator.families().snapshots()) {
        for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
            const series::LabelValues &labels = *snapshot.labels[i];
            const bool is_read = labels.back() == "read";
            CHECK(labels[labels.size() - 2] == (is_read ? "sda" : "sdb"));
            CHECK(labels[labels.size() - 3] == "worker");
            const auto *const values = &snapshot.values[i * snapshot.stride];
            if (snapshot.stride == 1) {
                CHECK(values[0] == 12'288);
            } else {
                CHECK(values[3] == 2);
                CHECK(values[BLOCK_BUCKETS - 1] == 1);
                CHECK(values[BLOCK_BUCKETS] == 6'000'700'000);
            }
            seen++;
        }
    }
    CHECK(seen == 4);
}

TEST_CASE("a block device that is not there has its number as its name") {
    CHECK(read_block_device_name((4095U << BLOCK_MINOR_BITS) + 77) == "4095:77");
    BlockDeviceNames names;
    CHECK(names.of(5) == "0:5");
    CHECK(names.of(5) == "0:5");
}

TEST_CASE("the settings of host_block are read") {
    const auto parse = [](const std::string &text) {
        return config::parse(text, "c", setting_blocks());
    };
    CHECK(parse("host: {block: {enabled: true}}")->of<HostBlockConfig>().enabled);
    CHECK_FALSE(parse("")->of<HostBlockConfig>().enabled);
    CHECK_FALSE(parse("host: {block: {on: true}}"));
}

// Requests to block devices as lines.

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
    CHECK(block_line(0) == of_traced({{"time", "2023-11-14T22:13:20.123459500Z"},
                                      {"duration_ns", 1'000},
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
