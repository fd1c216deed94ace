// DMA fences of the targets.
#pragma once

#include <cstdint>

#include "bpf/fence/fence.h"
#include "exporter/config/config.h"
#include "exporter/probes/fence/aggregator.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::probes {

extern const ProbeKind fence_kind;

struct FenceConfig {
    bool enabled = true;
    std::uint32_t max_fences = 131'072;    // followed at one time
    std::uint32_t ring_bytes = 1U << 20U;  // a power of two
    bool operator==(const FenceConfig &) const = default;
};

void read_fence(config::Section fence, config::Config &config);

}  // namespace gpusnoop::probes

namespace gpusnoop::trace {

// `trace fence`: each event of DMA fences.
extern const Kind fence_trace;

// `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const fence_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
