#include "exporter/probes/host_block/aggregator.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/host_block/probe.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

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
