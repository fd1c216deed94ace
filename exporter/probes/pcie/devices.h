// Finds the PCI devices of the configured classes in /sys.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/probes/frame/pci_address.h"

namespace gpusnoop::probes {

// Does the class, "0x030200", begin with one of these: "0x03", "0x0680"?
[[nodiscard]] bool is_of_class(std::string_view class_code,
                               const std::vector<std::string> &classes);

// The devices of these classes below `directory`. Omits devices that cannot be read.
[[nodiscard]] std::set<std::uint64_t> find_pci_devices(
    const std::vector<std::string> &classes, const std::string &directory = "/sys/bus/pci/devices");

}  // namespace gpusnoop::probes
