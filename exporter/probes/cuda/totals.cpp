#include "exporter/probes/cuda/totals.h"

#include <cstddef>
#include <utility>

#include "exporter/probes/cuda/copies/copies.h"
#include "exporter/probes/cuda/errors.h"
#include "exporter/probes/cuda/graphs/graphs.h"
#include "exporter/probes/cuda/launches/launches.h"
#include "exporter/probes/cuda/memory/memory_peaks.h"

namespace gpusnoop::probes {

namespace {

HeldByGpu by_gpu(const HeldMemory &memory) {
    HeldByGpu held;
    for (const HeldOnGpu &gpu : memory.gpus) {
        held[gpu.gpu] = {.peak_bytes = gpu.peak_bytes,
                         .byte_seconds = gpu.byte_seconds,
                         .unfreed_bytes = gpu.bytes};
    }
    return held;
}

void add_calls(GpuProcessTotals &totals, const Process &process, const TotalsContext &context) {
    const CudaLaunches::Counted launches = CudaLaunches::counted(process);
    totals.launches = launches.launches;
    for (const std::int32_t device : launches.devices) {
        totals.held.try_emplace(gpu_of(process, device));
    }
    totals.errors = CudaErrors::counts(process).errors;
    const CudaCopies::BytesByKind &copied = CudaCopies::copied(process);
    for (std::size_t kind = 0; kind < copied.size(); kind++) {
        if (copied.at(kind) > 0) {
            totals.copied_bytes.emplace(copy_kind_names.at(kind), copied.at(kind));
        }
    }
    const bool is_older =
        process.key.since_ns < static_cast<std::uint64_t>(context.started.count());
    totals.are_calls_complete = process.is_complete && !is_older &&
                                process.lost_before == context.lost_records &&
                                !CudaGraphs::has_launched_unknown(process);
    totals.are_launches_complete =
        totals.are_calls_complete && CudaLaunches::launched(process) == launches.launches;
}

}  // namespace

GpuProcessTotals totals_of(const Process &process, const TotalsContext &context) {
    GpuProcessTotals totals{.process = process, .ended = *process.ended};
    const HeldMemory held = held_by(process, totals.ended);
    totals.held = by_gpu(held);
    totals.is_memory_complete = process.is_complete && held.is_complete;
    for (JobOwner &owner : owners_of(process)) {
        if (const auto memory = context.held_by(owner)) {
            totals.owned.push_back(
                {.owner = std::move(owner), .since = memory->since, .held = by_gpu(*memory)});
        }
    }
    add_calls(totals, process, context);
    return totals;
}

}  // namespace gpusnoop::probes
