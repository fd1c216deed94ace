// Errors of GPUs (Xid) and of NVSwitches (SXid) that the NVIDIA driver reports.
//
// The driver writes its reports to the kernel's log. xid_console (bpf/xid.bpf.c) runs for each
// logged line; a line that may be a report goes to the ring, with a flag that shows whether a
// program is writing it to /dev/kmsg. On kernels where that tracepoint comes too late or does not
// exist, the pipeline thread reads /dev/kmsg instead (system/kernel_log.h). Either way,
// aggregator.h gets lines. report.h parses a line, whose text is as untrusted as the process name
// in it, and has NVIDIA's table; the process is looked up in /proc, because a report has only
// its id. aggregator.h also keeps the last reports.
#pragma once

#include <cstdint>

#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

extern const ProbeKind xid_kind;

struct XidConfig {
    enum class Source : std::uint8_t { automatic, driver, printk, kmsg };

    bool enabled = true;
    Source source = Source::automatic;
    bool count_written_lines = false;
    std::uint32_t ring_bytes = 1U << 17U;  // a power of two
    bool operator==(const XidConfig &) const = default;
};

void read_xid(config::Section xid, config::Config &config);

// Does the probe open /dev/kmsg?
[[nodiscard]] bool xid_reads_kernel_log(const config::Config &config);

}  // namespace gpusnoop::probes
