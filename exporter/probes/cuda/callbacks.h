// What the CUDA aggregator and its parts ask of the world around them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"
#include "exporter/probes/cuda/memory/live_allocations.h"
#include "exporter/probes/cuda/memory/live_table.h"

namespace gpusnoop::probes {

struct Process;

// All called from the aggregating thread.
struct CudaCallbacks {
    // Drains the allocations ring now. A call's process and kernel are announced there before the
    // call's own record, so what a record needs is there after this.
    std::function<void()> catch_up = [] {};
    std::function<void(const symbols::Executable &)> remember_executable = [](const auto &) {};
    std::function<void(symbols::CudaKernelRequest)> ask_for_kernel = [](auto) {};
    std::function<void(std::uint64_t ticket, const Process &, const Site &)> ask_for_site =
        [](auto, const auto &, const auto &) {};
    // No process is left that has allocated from there.
    std::function<void(std::int32_t)> forget_stack = [](auto) {};
    // Fills in what /proc says of a process that still runs: exe, container, pod, GPUs.
    std::function<void(Process &)> describe = [](Process &) {};
    // Takes entries out of the kernel's table of live allocations. Returns those that were made at
    // the same addresses meanwhile, and that the table did not have for a moment.
    std::function<std::vector<LiveEntry>(std::span<const LiveEntry>)> forget_live = [](auto) {
        return std::vector<LiveEntry>();
    };
    // Mappings of memory with a handle that a cuMemUnmap ended and left to us. Memory that is
    // freed by that comes as records.
    std::function<void(std::span<const LiveEntry>)> end_mappings = [](auto) {};
};

}  // namespace gpusnoop::probes
