// The block `torch:` of the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"

namespace gpusnoop::probes {

struct TorchConfig {
    bool enabled = false;
    // Send records of sampled blocks only, with their lines of Python.
    bool sampling = false;
    // Globs that match file names, not paths.
    std::vector<std::string> libraries = {"libc10.so*", "libc10-*.so*"};
    ebpf::Attach attach = ebpf::Attach::automatic;
    std::uint32_t ring_bytes = 4U << 20U;  // a power of two
    // The exporter follows this many blocks of memory at one time, of all processes.
    std::uint32_t max_live_allocations = 1U << 20U;
    // Keep the whole stacks of allocating calls, or only their return addresses.
    bool call_stacks = true;
    std::uint32_t max_call_stacks = 8192;
    // Call sites on the page, of each process.
    std::uint32_t max_call_sites = 10;
    bool operator==(const TorchConfig &) const = default;
};

void read_torch(config::Section torch, config::Config &config);

}  // namespace gpusnoop::probes
