// Finds the PCI devices of the configured classes in /sys.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::probes {

// A device as in pcie_device() of bpf/pcie.h, from and to its address "0000:3b:00.0".
[[nodiscard]] std::optional<std::uint64_t> pci_device(std::string_view address);
[[nodiscard]] std::string pci_address(std::uint64_t device);

// Does the class, "0x030200", begin with one of these: "0x03", "0x0680"?
[[nodiscard]] bool is_of_class(std::string_view class_code,
                               const std::vector<std::string> &classes);

// The devices of these classes below `directory`. Omits devices that cannot be read.
[[nodiscard]] std::set<std::uint64_t> find_pci_devices(
    const std::vector<std::string> &classes, const std::string &directory = "/sys/bus/pci/devices");

}  // namespace gpusnoop::probes
