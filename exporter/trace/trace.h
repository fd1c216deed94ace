// `gpusnoop_exporter trace`: every call or event as a line, for debugging.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/config/config.h"

namespace gpusnoop::trace {

enum class Format { text, json };

struct Options {
    Format format = Format::text;
    std::vector<std::uint32_t> pids;                    // at most TRACED_PIDS; none: all
    std::vector<std::uint32_t> ppids;                   // at most TRACED_PIDS; none: all
    std::string comm;                                   // a glob for names of processes; empty: all
    std::vector<std::string> functions;                 // globs for names of functions; none: all
    bool stack = false;                                 // not of the kernel's events
    std::uint64_t count = 0;                            // calls to write, then stop; 0: no end
    std::optional<std::chrono::milliseconds> duration;  // then stop
};

// Of functions that the configuration names, or that these do; see probes::FunctionTracing.
struct FunctionTraceOptions : Options {
    std::vector<std::string> libraries;
    bool only_slow = false;
    std::chrono::milliseconds min_duration{0};
    bool entries = false;  // a line when a call begins, too
};

enum class KernelEvents { pcie, nvlink, fence, syscall };

// Without pids, ppids and comm, fences and system calls are those of the configuration's targets.
struct KernelOptions : Options {
    KernelEvents events = KernelEvents::syscall;
    std::vector<std::string> syscalls;  // names and groups; none: the configuration's
};

// Runs beside an exporter, or another trace: the programs and tables in the kernel are its own.
// Writes to stdout until there is nobody to read, until it has written or waited enough, or until
// `stop_fd` is readable (it stays the caller's). SIGPIPE must be ignored. Fails when it cannot
// start, or cannot write for another reason, such as a full disk.
Result<> trace_cuda(const config::Config &config, const Options &options, int stop_fd);
Result<> trace_func(const config::Config &config, const FunctionTraceOptions &options, int stop_fd);
Result<> trace_kernel(const config::Config &config, const KernelOptions &options, int stop_fd);

}  // namespace gpusnoop::trace
