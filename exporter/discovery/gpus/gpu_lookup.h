// Asks for the GPUs of processes without letting one of them hold up whoever asks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exporter/discovery/gpus/gpus.h"
#include "exporter/discovery/gpus/visible_gpus.h"

namespace gpusnoop::discovery {

// Reading a process's environment and devices touches memory and file systems that are its own, and
// that can make a reader wait for ever. So it is done by a thread that is given up when it takes
// too long.
class GpuLookup {
public:
    explicit GpuLookup(std::vector<Gpu> gpus);
    ~GpuLookup();
    GpuLookup(const GpuLookup &) = delete;
    GpuLookup &operator=(const GpuLookup &) = delete;

    [[nodiscard]] const std::vector<Gpu> &gpus() const { return gpus_; }

    // Without an answer in time: what can be known without looking. Where the node has at most one
    // GPU there is nothing to look for.
    [[nodiscard]] VisibleGpus of(std::uint32_t tgid, std::chrono::milliseconds patience);

private:
    struct Worker;

    std::vector<Gpu> gpus_;
    std::shared_ptr<Worker> worker_;
    unsigned given_up_ = 0;
};

}  // namespace gpusnoop::discovery
