// The registers in the configuration space of a PCI device, by name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace gpusnoop::trace {

class PciRegisters {
public:
    // Reads one, two or four bytes at an offset; nothing if they cannot be read.
    using Read =
        std::function<std::optional<std::uint32_t>(std::uint32_t offset, std::uint32_t bytes)>;

    // For a device that cannot be read: only the names that all devices have.
    PciRegisters() = default;
    // Follows the device's lists of capabilities, whatever they contain.
    explicit PciRegisters(const Read &read);

    // "command", "link_control", "msi+0x4" for an offset inside a register; "" if it is not known.
    [[nodiscard]] std::string name(std::uint32_t offset) const;

private:
    struct Capability {
        std::uint32_t id = 0;
        std::uint32_t bytes = 0;
    };

    void find_capabilities(const Read &read);
    void find_extended_capabilities(const Read &read);

    bool is_plain_ = false;                             // header type 0: no bridge
    std::map<std::uint32_t, Capability> capabilities_;  // by offset
};

// Reads the device through /sys, unless it sleeps. Never writes to its configuration space.
[[nodiscard]] PciRegisters registers_of(std::uint64_t device,
                                        const std::string &directory = "/sys/bus/pci/devices");

}  // namespace gpusnoop::trace
