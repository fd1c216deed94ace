// Tracing with BPF programs of this repository: all functions of a library whose names are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/call_cost/library.h"
#include "bench/call_cost/tracing.h"
#include "exporter/ebpf/attach/uprobe.h"

namespace gpusnoop::bench {

// Programs that do nothing: the lowest cost of all programs that attach in the same way.
TracingResult trace_with_nothing(ebpf::AttachMode mode, const Library &library);

// Sessions of bench/bpf/least.bpf.c: the lowest cost of all programs that send a record of this
// size for each outermost call. `keeps_stacks`: with the call stack of each cudaMalloc.
TracingResult trace_with_least(std::uint64_t record_bytes, bool keeps_stacks,
                               const Library &library);

// A program of the same file at the entry of the driver's launches, which reads one word of the
// stack and adds to a counter: the lowest cost of all programs that count launches. `by_shape`: to
// a counter for each process, kernel and shape, which it finds in a table.
TracingResult trace_with_least_counter(bool by_shape, const Library &library);

// Attaches without cookies.
Result<ebpf::UprobeSet> attach_to(const Library &library, const std::vector<std::string> &functions,
                                  const ebpf::CallPrograms &programs);

inline constexpr std::size_t python_functions = 20;

// The exporter's CUDA probe.
struct CudaOptions {
    bool call_stacks = true;
    bool counts_launches = false;  // where they enter the driver, and nothing else
    bool is_python = false;        // with python_functions at each allocation
};
TracingResult trace_with_cuda(ebpf::AttachMode mode, CudaOptions options, const Library &library);

// The functions probe, with a latency, an error and a threshold for slow calls for each function.
TracingResult trace_with_functions(ebpf::AttachMode mode, const Library &library);

}  // namespace gpusnoop::bench
