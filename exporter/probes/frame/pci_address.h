// The address of a PCI device, as text and as one number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnoop::probes {

// A device as in pcie_device() of bpf/lib/pci.h, from and to its address "0000:3b:00.0".
[[nodiscard]] std::optional<std::uint64_t> pci_device(std::string_view address);
[[nodiscard]] std::string pci_address(std::uint64_t device);

}  // namespace gpusnoop::probes
