// Calls of three helpers inside the NVIDIA driver. They are not NVLink traffic: the driver uses
// them when it trains links and answers ioctls.
#pragma once

#include <cstdint>

#include "bpf/nvlink.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/event.h"

namespace gpusnoop::probes {

// The block `nvlink:` of the configuration.
struct NvlinkConfig {
    bool enabled = true;
    std::uint32_t ring_bytes = 1U << 20U;  // a power of two
    bool operator==(const NvlinkConfig &) const = default;
};

extern const ProbeKind nvlink_kind;

// A line of `trace nvlink`; `clock_offset_ns` as in began_ns().
[[nodiscard]] trace::Event event_of(const nvlink_record &record, const ProcessIdentity &process,
                                    std::int64_t clock_offset_ns);

}  // namespace gpusnoop::probes
