// The block `cuda:` of the configuration.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"

namespace gpusnoop::probes {

// Whether probes and tables stay in the kernel while no exporter runs.
enum class Pin {
    automatic,  // if the exporter is supervised, until it is stopped
    always,     // until they are removed
    never,
};
inline constexpr std::pair<std::string_view, Pin> pin_names[] = {
    {"auto", Pin::automatic}, {"true", Pin::always}, {"false", Pin::never}};

struct CudaConfig {
    bool enabled = true;
    // Globs that match file names, not paths.
    std::vector<std::string> libraries = {"libcuda.so*", "libcudart.so*", "libcudart-*.so*",
                                          "libcupti.so*", "libcupti-*.so*"};
    ebpf::Attach attach = ebpf::Attach::automatic;
    ebpf::Endings endings = ebpf::Endings::automatic;
    // Per process, copies and launches only; 0 is no limit.
    std::uint32_t max_calls_per_second = 2'000'000;
    // Of one CPU, in percent, per process; 0 is no limit, and all launches are seen to their end.
    std::uint32_t max_overhead = 3;
    // Powers of two, in bytes.
    std::uint32_t allocation_ring_bytes = 4U << 20U;
    std::uint32_t call_ring_bytes = 8U << 20U;
    // Entries of the tables in the kernel.
    std::uint32_t max_live_allocations = 1U << 20U;
    std::uint32_t max_registered_kernels = 1U << 18U;
    Pin pin = Pin::automatic;
    std::string pin_path = "/sys/fs/bpf/gpusnoop";  // in a BPF file system
    // Keep the whole stacks of allocating calls, or only their return addresses.
    bool call_stacks = true;
    std::uint32_t max_call_stacks = 8192;
    // Read the stacks of Python's functions, too.
    bool python_stacks = true;
    // Somebody adds programs that look at calls which have failed (CallMaps).
    bool follow_failed = false;
    // Call sites on the page, of each process.
    std::uint32_t max_call_sites = 10;
    std::chrono::milliseconds drain_interval{10};
    // Of the block in_flight: calls in flight for so long when their thread ends are reported; 0:
    // none.
    std::chrono::milliseconds unreturned_after{};
    // Enter GPU processes into the table of followed processes: a host probe wants them.
    bool follow = false;
    // Keep the accounts of launching threads, for the probe host_time. With `follow` only.
    bool keep_times = false;
    std::chrono::milliseconds gap_min{1};  // launch gaps this long or longer are explained
    bool send_gaps = false;                // send a record of each of these
    bool operator==(const CudaConfig &) const = default;
};

void read_cuda(config::Section cuda, config::Config &config);

// With what the other probes and the sinks want of this one.
[[nodiscard]] CudaConfig config_for_probes(const config::Config &config,
                                           bool follows_gpu_processes);

// The smallest settings of a probe that only enters GPU processes, which it does at their first
// call. `records_calls`: all their calls, for what they have used.
[[nodiscard]] config::Config config_for_gpu_processes(config::Config config, bool records_calls);

// Whether something restarts an exporter that ends by itself or is killed: then a successor takes
// its pins over. (The variable GPUSNOOP_SUPERVISED, which the unit, the chart and compose set.)
[[nodiscard]] bool is_supervised();

// The same settings, with the ends of calls seen at exits if this kernel's return probes would end
// programs (ebpf::Features::has_harmless_return_probes()).
[[nodiscard]] CudaConfig as_is_harmless(CudaConfig cuda, const ebpf::Features &features);

}  // namespace gpusnoop::probes
