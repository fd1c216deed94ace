// Runs a BPF program at events of each CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/attach/link.h"

struct bpf_program;

namespace gpusnoop::ebpf {

struct CpuEvent {
    std::uint64_t config = 0;     // PERF_COUNT_SW_...
    std::uint32_t frequency = 0;  // in Hz; 0: at every event
};

// A link for each CPU that is online. Needs CAP_PERFMON.
[[nodiscard]] Result<std::vector<Link>> run_at_cpu_events(const bpf_program *program,
                                                          const CpuEvent &event);

}  // namespace gpusnoop::ebpf
