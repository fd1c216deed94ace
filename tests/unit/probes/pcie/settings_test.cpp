// The block `pcie:` of the configuration.
#include "exporter/probes/pcie/probe.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;

namespace {

std::string pcie_problem_of(const std::string &text) {
    const auto config = config::parse(text, "c", probes::setting_blocks());
    INFO(text);
    REQUIRE(!config);
    return config.error().message;
}

}  // namespace

TEST_CASE("the settings of pcie are read") {
    const auto config = config::parse(
        "pcie: {enabled: false, classes: [\"0X0302\", \"0x068000\", all], ring_bytes: 4KiB}\n", "c",
        probes::setting_blocks());
    REQUIRE(config);
    CHECK(config->of<probes::PcieConfig>() ==
          probes::PcieConfig{false, {"0x0302", "0x068000", ""}, 4096});
}

TEST_CASE("what is no class of PCI devices is refused with what would be") {
    const std::string sentence =
        "must be \"all\", or 0x and 2, 4 or 6 digits of a PCI class, such as \"0x03\"";
    for (const std::string code : {"\"\"", "\"0x\"", "\"03\"", "\"0x3\"", "\"0x030\"",
                                   "\"0x0300001\"", "\"0x0g\"", "\"0x03 \"", "display", "ALL"}) {
        CHECK(pcie_problem_of("pcie: {classes: [" + code + "]}") ==
              "c:1:18: pcie.classes[0]: " + sentence);
    }
    for (const std::string text :
         {"pcie: {classes: \"0x03\"}", "pcie: {classes: []}", "pcie: {classes: [{}]}",
          "pcie: {ring_bytes: 5000}", "pcie: {devices: []}"}) {
        INFO(text);
        CHECK(!pcie_problem_of(text).empty());
    }
}
