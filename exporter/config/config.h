// The configuration: every setting with its default, and the strict reader of config.yaml.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/result.h"
#include "exporter/probes/functions/settings.h"
#include "exporter/sinks/settings.h"

namespace gpusnoop::config {

// What an operator can set. A Config{} is what an empty file means; /config.yaml says the same with
// a comment for each setting.
struct Config {
    std::string file;  // that it was read from; empty: nothing but defaults

    struct Web {
        std::vector<std::string> listen_addresses = {":19435"};
        std::string telemetry_path = "/metrics";
        // By flags only.
        std::string config_file = {};  // TLS and logins; empty: none
        bool systemd_socket = false;   // in the place of the addresses
        bool operator==(const Web &) const = default;
    } web;

    struct Log {
        log::Level level = log::Level::info;
        log::Format format = log::Format::logfmt;
        bool operator==(const Log &) const = default;
    } log;

    struct Capabilities {
        enum class Keep { needed, all };

        Keep keep = Keep::needed;
        bool operator==(const Capabilities &) const = default;
    } capabilities;

    struct Labels {
        bool pid = false;
        bool operator==(const Labels &) const = default;
    } labels;

    struct Series {
        // Label sets per metric family; `budgets` overrides it for single families, by full name.
        std::uint32_t budget = 2000;
        std::map<std::string, std::uint32_t> budgets;
        // How long a label set is kept after the last process behind it exited.
        std::chrono::milliseconds retention = std::chrono::minutes(10);
        bool operator==(const Series &) const = default;
    } series;

    struct Discovery {
        std::chrono::milliseconds rescan_interval = std::chrono::seconds(30);
        // Where the NVIDIA driver lists the node's GPUs; absolute.
        std::string nvidia_proc_path = "/proc/driver/nvidia";
        // Files without probes: globs of paths, and build ids behind "build_id:".
        std::vector<std::string> exclude;
        bool operator==(const Discovery &) const = default;
    } discovery;

    struct Cuda {
        enum class Attach { automatic, session, multi, perf };

        bool enabled = true;
        // Globs that match file names, not paths.
        std::vector<std::string> libraries = {"libcuda.so*", "libcudart.so*", "libcudart-*.so*"};
        Attach attach = Attach::automatic;
        Endings endings = Endings::automatic;
        // Per process, copies and launches only; 0 is no limit.
        std::uint32_t max_calls_per_second = 2'000'000;
        // Powers of two, in bytes.
        std::uint32_t allocation_ring_bytes = 4U << 20U;
        std::uint32_t call_ring_bytes = 8U << 20U;
        // Entries of the tables in the kernel.
        std::uint32_t max_live_allocations = 1U << 20U;
        std::uint32_t max_registered_kernels = 1U << 18U;
        // Keeps probes and tables in the kernel while no exporter runs, in a BPF file system.
        bool pin = false;
        std::string pin_path = "/sys/fs/bpf/gpusnoop";
        // Whole stacks of allocating calls, or only where they return to.
        bool call_stacks = true;
        std::uint32_t max_call_stacks = 8192;
        // Call sites on the page, of each process.
        std::uint32_t call_sites = 10;
        std::chrono::milliseconds drain_interval{10};
        bool operator==(const Cuda &) const = default;
    } cuda;

    struct FunctionReport {
        std::chrono::milliseconds interval{0};  // 0: none
        std::uint32_t rows = 10;                // of each of its two tables
        bool operator==(const FunctionReport &) const = default;
    };

    struct Functions {
        bool enabled = true;
        Cuda::Attach attach = Cuda::Attach::automatic;
        // Per process; 0 is no limit.
        std::uint32_t max_calls_per_second = 2'000'000;
        // A power of two.
        std::uint32_t ring_bytes = 4U << 20U;
        std::chrono::milliseconds drain_interval{10};
        // Functions of one file, over all groups; a file where more match is not traced.
        std::uint32_t max_functions = 4096;
        FunctionReport report;
        FunctionGroups groups = shipped_function_groups();
        struct SlowCalls {
            // Those that /api/v1/slow_calls shows.
            std::uint32_t keep = 100;
            // Lines in the log; 0 is none.
            std::uint32_t log_per_second = 10;
            // A power of two.
            std::uint32_t ring_bytes = 1U << 20U;
            bool operator==(const SlowCalls &) const = default;
        } slow_calls;
        bool operator==(const Functions &) const = default;
    } functions;

    struct Pcie {
        bool enabled = true;
        // What the class of a device begins with, as /sys writes it, in small letters; "" is
        // every device.
        std::vector<std::string> classes = {"0x03", "0x0680"};
        // A power of two.
        std::uint32_t ring_bytes = 1U << 20U;
        bool operator==(const Pcie &) const = default;
    } pcie;

    struct Nvlink {
        bool enabled = true;
        // A power of two.
        std::uint32_t ring_bytes = 1U << 20U;
        bool operator==(const Nvlink &) const = default;
    } nvlink;

    std::vector<Sink> sinks;

    // Whom the probes of the kernel's side trace.
    struct Targets {
        bool gpu_processes = true;
        bool everything = false;
        std::vector<std::uint32_t> pids;
        std::vector<std::uint32_t> parents;   // what these started; of a trace, no key sets it
        std::vector<std::string> comms;       // globs
        std::vector<std::string> containers;  // beginnings of ids
        bool operator==(const Targets &) const = default;
    } targets;

    struct Syscall {
        bool enabled = false;
        // Names and groups; empty is all.
        std::vector<std::string> syscalls;
        // Entries of the table of counts in the kernel.
        std::uint32_t max_counts = 32'768;
        bool operator==(const Syscall &) const = default;
    } syscall;

    struct Fence {
        bool enabled = true;
        // Fences that are followed at one time.
        std::uint32_t max_fences = 131'072;
        // A power of two.
        std::uint32_t ring_bytes = 4U << 20U;
        bool operator==(const Fence &) const = default;
    } fence;

    bool operator==(const Config &) const = default;
};

// Reads `text`, or the file at `path`. An error's message holds every problem found, one per line
// and in the file's order: "file:line:column: key.path: sentence", line and column from 1 (the
// column counts bytes). `name` is the file's name in them. `metrics` are the names
// that `series.budgets` may use; empty leaves them unchecked.
[[nodiscard]] Result<Config> parse(std::string_view text, const std::string &name,
                                   std::span<const std::string> metrics = {});
[[nodiscard]] Result<Config> load(const std::string &path,
                                  std::span<const std::string> metrics = {});

}  // namespace gpusnoop::config
