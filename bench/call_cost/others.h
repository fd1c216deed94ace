// Tracing with other tools in common use.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/call_cost/library.h"
#include "bench/call_cost/tracing.h"

namespace gpusnoop::bench {

// bpftrace: a histogram of each function's duration.
TracingResult trace_with_bpftrace_latency(const std::filesystem::path &bpftrace,
                                          const Library &library);

// bpftrace: a table of live allocations to find leaks, and the same histograms. Needs the runtime's
// functions.
TracingResult trace_with_bpftrace_memory(const std::filesystem::path &bpftrace,
                                         const Library &library);

// libbpf-tools' funclatency: a process per function.
TracingResult trace_with_funclatency(const std::filesystem::path &funclatency,
                                     const Library &library,
                                     const std::vector<std::string> &functions);

}  // namespace gpusnoop::bench
