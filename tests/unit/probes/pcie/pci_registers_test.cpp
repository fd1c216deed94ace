// Names of registers, by the lists of capabilities that devices have, broken ones included.
#include "exporter/probes/pcie/pci_registers.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "exporter/probes/pcie/aggregator.h"

using namespace gpusnoop;
using trace::PciRegisters;

namespace {

// The configuration space of a GPU with power management at 0x60, MSI at 0x68, PCI Express at 0x78,
// and a vendor's own of 0x14 bytes at 0xc8; then error reporting at 0x100, and something at 0x200.
std::vector<unsigned char> a_gpu() {
    std::vector<unsigned char> space(4096);
    const auto put = [&](std::size_t at, std::initializer_list<unsigned char> bytes) {
        std::copy(bytes.begin(), bytes.end(), space.begin() + static_cast<std::ptrdiff_t>(at));
    };
    put(0x06, {0x10, 0x00});  // it has capabilities
    put(0x34, {0x60});
    put(0x60, {0x01, 0x68});
    put(0x68, {0x05, 0x78});
    put(0x78, {0x10, 0xc8});
    put(0xc8, {0x09, 0x00, 0x14});
    put(0x100, {0x01, 0x00, 0x02, 0x20});
    put(0x200, {0x77, 0x07, 0x01, 0x00});
    return space;
}

PciRegisters::Read of(const std::vector<unsigned char> &space) {
    return [space](std::uint32_t offset, std::uint32_t bytes) -> std::optional<std::uint32_t> {
        if (offset + bytes > space.size()) {
            return std::nullopt;
        }
        std::uint32_t value = 0;
        std::memcpy(&value, space.data() + offset, bytes);
        return value;
    };
}

}  // namespace

TEST_CASE("registers are named by the header and the device's capabilities") {
    const PciRegisters registers(of(a_gpu()));
    CHECK(registers.name(0x00) == "vendor_id");
    CHECK(registers.name(0x04) == "command");
    CHECK(registers.name(0x05) == "command+0x1");
    CHECK(registers.name(0x06) == "status");
    CHECK(registers.name(0x24) == "bar_5");
    CHECK(registers.name(0x28) == "");
    CHECK(registers.name(0x3c) == "interrupt_line");
    CHECK(registers.name(0x40) == "");
    CHECK(registers.name(0x5f) == "");
    CHECK(registers.name(0x60) == "power_management");
    CHECK(registers.name(0x64) == "power_management_control");
    CHECK(registers.name(0x6a) == "msi_control");
    CHECK(registers.name(0x6c) == "msi+0x4");
    CHECK(registers.name(0x78 + 0x08) == "device_control");
    CHECK(registers.name(0x78 + 0x10) == "link_control");
    CHECK(registers.name(0x78 + 0x12) == "link_status");
    CHECK(registers.name(0x78 + 0x30) == "link_control_2");
    CHECK(registers.name(0x78 + 0x3b) == "pcie+0x3b");
    CHECK(registers.name(0x78 + 0x3c) == "");
    CHECK(registers.name(0xc8 + 0x13) == "vendor_specific+0x13");
    CHECK(registers.name(0xc8 + 0x14) == "");
    CHECK(registers.name(0x104) == "uncorrectable_error_status");
    CHECK(registers.name(0x110) == "correctable_error_status");
    CHECK(registers.name(0x204) == "");
    CHECK(registers.name(0xffff'ffff) == "");
}

TEST_CASE(
    "a bridge's header has other registers, and one that does not answer has the common ones") {
    auto space = a_gpu();
    space[0x0e] = 0x81;  // a bridge, of several functions
    CHECK(PciRegisters(of(space)).name(0x18) == "");
    CHECK(PciRegisters(of(space)).name(0x04) == "command");
    space[0x0e] = 0x80;
    CHECK(PciRegisters(of(space)).name(0x18) == "bar_2");
    for (const PciRegisters &silent : {PciRegisters(), PciRegisters(of({})),
                                       PciRegisters(of(std::vector<unsigned char>(4096, 0xff)))}) {
        CHECK(silent.name(0x04) == "command");
        CHECK(silent.name(0x18) == "");
        CHECK(silent.name(0x88) == "");
        CHECK(silent.name(0x100) == "");
    }
}

TEST_CASE("lists that go in circles, or nowhere, end") {
    auto space = a_gpu();
    space[0xc9] = 0x60;   // back to the first
    space[0x203] = 0x10;  // back to 0x100
    const PciRegisters circle(of(space));
    CHECK(circle.name(0x88) == "link_control");
    CHECK(circle.name(0x110) == "correctable_error_status");
    space[0x61] = 0x10;  // into the header
    CHECK(PciRegisters(of(space)).name(0x88) == "");
    CHECK(PciRegisters(of(space)).name(0x64) == "power_management_control");
    space[0x06] = 0;  // it has none
    CHECK(PciRegisters(of(space)).name(0x64) == "");
    // What may not read more than the header gets that.
    auto start = a_gpu();
    start.resize(64);
    CHECK(PciRegisters(of(start)).name(0x24) == "bar_5");
    CHECK(PciRegisters(of(start)).name(0x64) == "");
}

TEST_CASE("a device is asked through its file, unless that would wake it") {
    namespace fs = std::filesystem;
    const fs::path directory =
        fs::temp_directory_path() / ("pci_registers_" + std::to_string(::getpid()));
    const fs::path device = directory / "0000:3b:00.0";
    fs::create_directories(device / "power");
    const auto space = a_gpu();
    std::ofstream(device / "config", std::ios::binary)
        .write(reinterpret_cast<const char *>(space.data()),
               static_cast<std::streamsize>(space.size()));
    const auto address = *probes::pci_device("0000:3b:00.0");
    const auto name = [&] { return trace::registers_of(address, directory).name(0x88); };
    CHECK(name() == "link_control");
    std::ofstream(device / "power" / "runtime_status") << "active\n";
    CHECK(name() == "link_control");
    std::ofstream(device / "power" / "runtime_status") << "suspended\n";
    CHECK(name() == "");
    CHECK(trace::registers_of(*probes::pci_device("0000:3c:00.0"), directory).name(4) == "command");
    fs::remove_all(directory);
}
