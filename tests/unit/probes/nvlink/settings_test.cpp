// The block `nvlink:` of the configuration.
#include "exporter/probes/nvlink/probe.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;

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
