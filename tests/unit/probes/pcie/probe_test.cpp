// The settings of the probe `pcie`, its devices, and its reads and writes as lines.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "bpf/pcie.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/pcie/aggregator.h"
#include "exporter/probes/pcie/probe.h"
#include "tests/unit/probes/event_lines.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace gpusnoop::trace;
using namespace event_lines;
using nlohmann::json;

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

TEST_CASE("addresses of PCI devices are read and written as the kernel writes them") {
    for (const std::string address :
         {"0000:00:00.0", "0000:3b:00.0", "0000:ff:1f.7", "ffff:01:10.3", "10000:e1:02.0"}) {
        INFO(address);
        const auto device = pci_device(address);
        REQUIRE(device);
        CHECK(pci_address(*device) == address);
    }
    CHECK(pci_device("0001:3b:02.3") == pcie_device(1, 0x3b, 2 << 3 | 3));
    for (const std::string address :
         {"", "0000:00:00", "0000:00:00.", "0000:00:00.8", "0000:00:20.0", "0000:100:00.0",
          "0000:00:00.0 ", "0000-00:00.0", "-1:00:00.0", "100000000:00:00.0", "pci0000:00"}) {
        INFO(address);
        CHECK(!pci_device(address));
    }
}

TEST_CASE("a class is one of those that it begins with") {
    CHECK(is_of_class("0x030200\n", {"0x03"}));
    CHECK(is_of_class("0x068000\n", {"0x03", "0x0680"}));
    CHECK(is_of_class("0x060400\n", {""}));
    CHECK(!is_of_class("0x060400\n", {"0x03", "0x0680"}));
    CHECK(!is_of_class("0x130300\n", {"0x03"}));
    CHECK(!is_of_class("0x03", {"0x0302"}));
    CHECK(!is_of_class("", {"0x03"}));
    CHECK(!is_of_class("0x030200\n", {}));
}

TEST_CASE("devices are found by the files of their classes") {
    const auto directory =
        std::filesystem::temp_directory_path() / ("pcie_devices_" + std::to_string(::getpid()));
    const auto add = [&](const std::string &name, const std::string &code) {
        std::filesystem::create_directories(directory / name);
        std::ofstream(directory / name / "class") << code << "\n";
    };
    add("0000:3b:00.0", "0x030200");
    add("0000:3c:00.0", "0x030000");
    add("0000:3d:00.0", "0x068000");
    add("0000:3e:00.0", "0x020000");
    add("not a device", "0x030000");
    std::filesystem::create_directories(directory / "0000:3f:00.0");  // without a class
    CHECK(find_pci_devices({"0x03", "0x0680"}, directory) == std::set{*pci_device("0000:3b:00.0"),
                                                                      *pci_device("0000:3c:00.0"),
                                                                      *pci_device("0000:3d:00.0")});
    CHECK(find_pci_devices({"0x0302"}, directory) == std::set{*pci_device("0000:3b:00.0")});
    CHECK(find_pci_devices({""}, directory).size() == 4);
    std::filesystem::remove_all(directory);
    CHECK(find_pci_devices({""}, directory).empty());
}

namespace {

pcie_record an_access() {
    pcie_record record{};
    record.ended_ns = ended;
    record.duration_ns = 1'500;
    record.device = *probes::pci_device("0000:3b:00.0");
    record.offset = 0x88;
    record.value = 0xffff;
    record.access = 2 | PCIE_WRITES | PCIE_USER;
    record.tgid = 100;
    record.tid = 101;
    return record;
}

}  // namespace

TEST_CASE("an access to the configuration space as a line") {
    Event event = event_of(an_access(), a_process(), "link_control", offset);
    CHECK(parsed(event) == of_caller({{"time", "2023-11-14T22:13:20.123459500Z"},
                                      {"duration_ns", 1'500},
                                      {"op", "write"},
                                      {"result", 0},
                                      {"error", nullptr},
                                      {"device", "0000:3b:00.0"},
                                      {"offset", "0x88"},
                                      {"register", "link_control"},
                                      {"size", 2},
                                      {"value", "0xffff"},
                                      {"origin", "user"}}));
    CHECK(columns(event) ==
          "100 101 99 setpci write 1.5us 0 device=0000:3b:00.0 offset=0x88 register=link_control "
          "size=2 value=0xffff origin=user");

    pcie_record record = an_access();
    record.access = 4;
    record.value = 0xffff'ffff;
    record.tgid = record.tid = 0;
    const auto failed_with = [&](std::int32_t result) {
        record.result = result;
        return event_of(record, a_process(), "", offset);
    };
    event = failed_with(0x86);
    const json line = parsed(event);
    CHECK(line["pid"].is_null());
    CHECK(line["tid"].is_null());
    CHECK(line["comm"] == "interrupt");
    CHECK(line["op"] == "read");
    CHECK(line["origin"] == "driver");
    CHECK(line["register"].is_null());
    CHECK(line["result"] == 0x86);
    CHECK(line["error"] == "PCIBIOS_DEVICE_NOT_FOUND");
    CHECK(columns(event) ==
          "- - - interrupt read 1.5us PCIBIOS_DEVICE_NOT_FOUND device=0000:3b:00.0 offset=0x88 "
          "size=4 value=0xffffffff origin=driver");
    CHECK(parsed(failed_with(0x87))["error"] == "PCIBIOS_BAD_REGISTER_NUMBER");
    CHECK(parsed(failed_with(-19))["error"] == "ENODEV");
    CHECK(parsed(failed_with(7))["error"] == "7");
}
