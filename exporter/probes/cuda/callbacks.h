// The functions that the CUDA aggregator and its parts call for work outside of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "exporter/probes/cuda/governor/unseen_launches.h"
#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"
#include "exporter/probes/cuda/memory/live_allocations.h"
#include "exporter/probes/frame/bpf/overhead.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/probes/frame/reports/report_facts.h"

namespace gpusnoop::probes {

struct OutOfMemory;
struct Process;

// All called from the aggregating thread.
struct CudaCallbacks {
    // Drains the allocations ring now. The records of a call's process and kernel are written there
    // before the call's own record, so after this they have been read.
    std::function<void()> catch_up = [] {};
    // The kernel that a process's runtime launches by this handle of the driver, if that was
    // learned and its record was not read: it was lost, or an earlier exporter read it.
    std::function<std::optional<std::uint64_t>(const ProcessKey &, std::uint64_t handle)>
        launched_by = [](const auto &, std::uint64_t) { return std::nullopt; };
    std::function<void(const symbols::Executable &)> remember_executable = [](const auto &) {};
    std::function<void(symbols::CudaKernelRequest)> ask_for_kernel = [](auto) {};
    std::function<void(std::uint64_t ticket, const Process &, const Site &)> ask_for_site =
        [](auto, const auto &, const auto &) {};
    // The last process that allocated from that stack has gone.
    std::function<void(std::int32_t)> forget_stack = [](auto) {};
    // Fills in values from /proc for a running process: exe, container, pod, GPUs.
    std::function<void(Process &)> describe = [](Process &) {};
    // Were all calls of a running process seen? (Process::is_complete)
    std::function<bool(const Process &)> has_all_calls = [](const Process &) { return true; };
    // Does a running process have a profiler that uses CUPTI?
    std::function<bool(const ProcessKey &)> has_profiler = [](const ProcessKey &) { return false; };
    CostOf cost_of = [](const auto &) { return 0; };
    OverheadLimitsPtr overhead{};
    std::function<Unseen(const ProcessKey &)> unseen_of = [](const auto &) { return Unseen{}; };
    // When the oldest call of each process began, of those that are under way for so long; nothing:
    // they cannot be listed.
    std::function<std::optional<OldestCalls>(std::chrono::nanoseconds min_age)> open_calls =
        [](auto) { return OldestCalls(); };
    // Once a second: how many kernels of the running process have no name.
    std::function<void(const ProcessKey &, std::size_t)> note_unknown_kernels = [](const auto &,
                                                                                   std::size_t) {};
    // The GPUs that Slurm has given to running jobs: host indices, by job.
    std::function<std::map<std::string, std::set<unsigned>>()> slurm_gpus = [] {
        return std::map<std::string, std::set<unsigned>>();
    };
    // Removes entries from the kernel's table of live allocations. Returns new entries at the same
    // addresses that were missing from the table for a moment.
    std::function<std::vector<LiveEntry>(std::span<const LiveEntry>)> forget_live = [](auto) {
        return std::vector<LiveEntry>();
    };
    // Ends mappings of memory with a handle that a cuMemUnmap left to the exporter. Memory that is
    // freed by this comes as records.
    std::function<void(std::span<const LiveEntry>)> end_mappings = [](auto) {};
    // A process was refused GPU memory.
    std::function<void(const OutOfMemory &)> out_of_memory = [](const auto &) {};
    // A process has ended, and what it had not freed is counted.
    std::function<void(const GpuProcessEnd &)> left_unfreed = [](const auto &) {};
    // Everything that a process did is counted, and it has ended. Once.
    std::function<void(GpuProcessTotals)> process_done = [](const auto &) {};
    // Records that have been lost so far, of any process.
    std::function<std::uint64_t()> lost_records = [] { return 0; };
};

}  // namespace gpusnoop::probes
