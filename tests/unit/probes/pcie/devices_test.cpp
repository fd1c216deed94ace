// Addresses of PCI devices, and which of them are of interest.
#include "exporter/probes/pcie/aggregator.h"

#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "bpf/pcie.h"

using namespace gpusnoop::probes;

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
