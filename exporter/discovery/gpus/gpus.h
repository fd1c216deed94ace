// The node's NVIDIA GPUs, from the driver's files below /proc: no NVML.
#pragma once

#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/processes/process_reader.h"

namespace gpusnoop::discovery {

struct Gpu {
    // The host's index: the position in the order of the PCI addresses, as nvidia-smi counts.
    unsigned index = 0;
    // "GPU-" and a UUID. Empty if it cannot be read, as before a GPU is first opened.
    std::string uuid;
    std::string pci_bus_id;  // as NVML and dcgm-exporter write it: 00000000:3B:00.0
    std::string name;        // the model; empty if it cannot be read
    int minor = -1;          // its device node is /dev/nvidia<minor>; -1 if it cannot be read
    bool mig = false;        // is divided into GPU instances (MIG) now
    // Who opens an instance opens /dev/nvidia-caps/nvidia-cap<N> of it and of its GPU instance:
    // the numbers of all instances that this GPU can have, in order.
    std::vector<int> capabilities = {};

    friend bool operator==(const Gpu &, const Gpu &) = default;
};

// In the order of their indices; empty without a driver. GPUs that the driver was told to exclude
// have no index and are left out. All strings are valid UTF-8.
//
// Each call asks the driver, which may have to wake a suspended GPU: read them at the start, and
// again while a UUID is empty, not at every scrape. Indices hold until a GPU is added or removed.
[[nodiscard]] std::vector<Gpu> read_gpus(const std::string &nvidia_proc = "/proc/driver/nvidia");

// The GPUs whose /dev/nvidia<minor> is below the directory `root`, or all of them if no such file
// exists: drivers create these files at first use. For work of reader.about().
[[nodiscard]] Result<std::vector<Gpu>> gpus_below(processes::ProcessReader &reader,
                                                  const std::string &root,
                                                  const std::vector<Gpu> &gpus);

}  // namespace gpusnoop::discovery
