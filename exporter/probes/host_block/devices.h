// Names of block devices.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace gpusnoop::probes {

// The device's name in /sys, such as "nvme0n1"; "259:0" for one that is not there, and "unknown"
// for 0. `device` is the kernel's number: bpf/host_block.h.
[[nodiscard]] std::string read_block_device_name(std::uint32_t device);

// Remembers them, so a number that another device gets keeps the first one's name.
class BlockDeviceNames {
public:
    [[nodiscard]] const std::string &of(std::uint32_t device);

private:
    std::map<std::uint32_t, std::string> names_;
};

}  // namespace gpusnoop::probes
