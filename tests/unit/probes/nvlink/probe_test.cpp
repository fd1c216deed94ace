// The settings of the probe `nvlink`, and its calls as lines.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/nvlink/probe.h"
#include "tests/unit/probes/event_lines.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace event_lines;
using nlohmann::json;

TEST_CASE("the settings of nvlink are read") {
    const auto config = config::parse("nvlink: {enabled: false, ring_bytes: 256MiB}\n", "c",
                                      probes::setting_blocks());
    REQUIRE(config);
    CHECK(config->of<probes::NvlinkConfig>() == probes::NvlinkConfig{false, 256U << 20U});
}

TEST_CASE("wrong settings of nvlink are refused") {
    for (const std::string text : {"nvlink: {ring_bytes: 1KiB}", "nvlink: {classes: []}"}) {
        INFO(text);
        CHECK_FALSE(config::parse(text, "c", probes::setting_blocks()));
    }
}

TEST_CASE("a call of the NVIDIA driver's helpers as a line") {
    nvlink_record record{};
    record.ended_ns = ended;
    record.duration_ns = 2'000;
    record.bytes = 4'096;
    record.op = NVLINK_MEMSET;
    record.tgid = 100;
    record.tid = 101;
    const trace::Event event = event_of(record, a_process(), offset);
    CHECK(parsed(event) == of_caller({{"time", "2023-11-14T22:13:20.123459000Z"},
                                      {"duration_ns", 2'000},
                                      {"function", "nvlink_memset"},
                                      {"bytes", 4'096}}));
    CHECK(columns(event) == "100 101 99 setpci nvlink_memset 2.0us - bytes=4096");
}
