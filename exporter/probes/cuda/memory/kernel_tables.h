// The tables that the CUDA probe keeps in the kernel.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/probes/cuda/memory/live_allocations.h"

namespace gpusnoop::probes {

// Borrows the maps' descriptors. For one thread at a time.
class CudaTables {
public:
    struct Maps {
        int live = -1;
        int processes = -1;
        int stacks = -1;
        int registered = -1;
        int contexts = -1;
        int ended = -1;
        int capturing = -1;
        int launches = -1;
        int end_mapping = -1;  // a program
    };
    explicit CudaTables(Maps maps) : maps_(maps) {}

    // All live allocations. Takes about a second for a million allocations. `now` is the kernel's
    // monotonic clock.
    [[nodiscard]] Result<LiveTable> read(std::chrono::nanoseconds now) const;
    // Keeps new allocations at the same addresses. Such an entry can be missing for a moment, in
    // which a free does not find it: these entries are returned.
    [[nodiscard]] std::vector<LiveEntry> forget_live(std::span<const LiveEntry> entries) const;

    // Removes ended mappings from their handles.
    void end_mappings(std::span<const LiveEntry> mappings) const;

    // Does the process have a profiler that was seen to attach to CUPTI?
    [[nodiscard]] bool has_profiler(const ProcessKey &process) const;

    // The map of processes; its values are cuda_live_process.
    [[nodiscard]] int processes() const { return maps_.processes; }

    // The addresses of a call site, innermost first.
    [[nodiscard]] std::vector<std::uint64_t> addresses_of(const Site &site) const;
    void forget_stack(std::int32_t stack) const;

    // The address of a kernel's name in a process which registered it, itself or before it was
    // forked.
    [[nodiscard]] std::optional<std::uint64_t> registered_name(std::uint32_t tgid,
                                                               std::uint64_t host_function) const;
    // The kernel that a process's runtime launches by this handle of the driver.
    [[nodiscard]] std::optional<std::uint64_t> launched_by(const ProcessKey &process,
                                                           std::uint64_t handle) const;
    // Forgets the registered names, and such handles, of ended processes.
    void forget_registered_of_ended() const;
    // The launches that were counted where they enter the driver: all of them, for
    // use(cuda_launch_key, cuda_launch_count).
    template <typename Use>
    Result<> for_each_launch(Use use) const {
        return ebpf::for_each<cuda_launch_key, cuda_launch_count>(maps_.launches, use);
    }
    void forget_launches(std::span<const cuda_launch_key> launches) const;
    // Whether the kernel's table of processes has it.
    [[nodiscard]] bool is_running(const ProcessKey &process) const;

    // Forgets the streams and events of captures that have ended, or whose process has.
    void forget_ended_captures() const;

private:
    Maps maps_;
};

}  // namespace gpusnoop::probes
