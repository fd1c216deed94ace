// What the parts of the probe have counted of a process, all together.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "exporter/probes/cuda/memory/held_memory.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/reports/report_facts.h"

namespace gpusnoop::probes {

struct TotalsContext {
    // What the processes of an owner have held until now; nothing: it is not known.
    std::function<std::optional<HeldMemory>(const JobOwner &)> held_by;
    std::uint64_t lost_records = 0;  // until now
    // The counts of processes that began before this are those of an earlier exporter, too.
    std::chrono::nanoseconds started{};
};

// Of a process that has ended, and whose memory is counted as unfreed.
[[nodiscard]] GpuProcessTotals totals_of(const Process &process, const TotalsContext &context);

}  // namespace gpusnoop::probes
