// Finds the GPUs of processes; no process can block the caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exporter/discovery/gpus/gpus.h"
#include "exporter/discovery/gpus/visible_gpus.h"

namespace gpusnoop::discovery {

// A process owns its environment and devices, so reading them touches its memory and file systems,
// and it can block the reader forever. So a thread reads them, and is given up when it takes too
// long.
class GpuLookup {
public:
    explicit GpuLookup(std::vector<Gpu> gpus);
    ~GpuLookup();
    GpuLookup(const GpuLookup &) = delete;
    GpuLookup &operator=(const GpuLookup &) = delete;

    [[nodiscard]] const std::vector<Gpu> &gpus() const { return gpus_; }

    // Without an answer in time: only the facts that need no reading. A node with at most one GPU
    // needs no reading.
    [[nodiscard]] VisibleGpus of(std::uint32_t tgid, std::chrono::milliseconds patience);

private:
    struct Worker;

    std::vector<Gpu> gpus_;
    std::shared_ptr<Worker> worker_;
    unsigned given_up_ = 0;
};

}  // namespace gpusnoop::discovery
