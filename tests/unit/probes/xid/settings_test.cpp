// The block `xid:` of the configuration.
#include "exporter/probes/xid/probe.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;
using Source = probes::XidConfig::Source;

namespace {

Result<config::Config> parse(const std::string &text) {
    return config::parse(text, "c", probes::setting_blocks());
}

}  // namespace

TEST_CASE("the settings of xid are read") {
    const auto config =
        parse("xid: {enabled: false, source: driver, count_written_lines: true, ring_bytes: 4KiB}");
    REQUIRE(config);
    CHECK(config->of<probes::XidConfig>() ==
          probes::XidConfig{false, Source::driver, true, 4U << 10U});
}

TEST_CASE("wrong settings of xid are refused") {
    for (const std::string text :
         {"xid: {source: nvml}", "xid: {ring_bytes: 1KiB}", "xid: {classes: []}"}) {
        INFO(text);
        CHECK_FALSE(parse(text));
    }
}

TEST_CASE("only a probe that reads /dev/kmsg asks for the privilege to") {
    CHECK(probes::reads_kernel_log(*parse("xid: {source: kmsg}")));
    CHECK(!probes::reads_kernel_log(*parse("xid: {source: printk}")));
    CHECK(!probes::reads_kernel_log(*parse("xid: {enabled: false, source: kmsg}")));
}
