#include "exporter/probes/cuda/memory/gauges.h"

#include <array>
#include <string>
#include <string_view>

#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/memory/call_sites.h"
#include "exporter/probes/cuda/memory/counters.h"
#include "exporter/probes/cuda/memory/held_memory.h"
#include "exporter/probes/cuda/memory/memory_peaks.h"
#include "exporter/probes/cuda/memory/state.h"
#include "exporter/probes/frame/allocations/allocations_api.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

constexpr std::array<std::string_view, age_thresholds.size()> age_names = {"1m", "10m", "1h"};

std::string_view name_of_complete(const HeldMemory &held) {
    return held.is_complete ? "true" : "false";
}

void add_peaks_of(const Process &process, series::Family &peaks, nanoseconds now) {
    const HeldMemory held = held_by(process, now);
    for (const HeldOnGpu &on : held.gpus) {
        raise_gauge(peaks, gauge_labels_of(process, {on.gpu, name_of_complete(held)}),
                    on.peak_bytes);
    }
}

void add_peaks_of_owners(const MemoryOwners &owners, series::Family &peaks, nanoseconds now) {
    const auto add = [&](const JobOwner &owner, const HeldMemory &held) {
        for (const HeldOnGpu &on : held.gpus) {
            raise_gauge(peaks,
                        {owner.container_id, owner.slurm_job_id, owner.slurm_step_id, on.gpu,
                         std::string(name_of_complete(held))},
                        on.peak_bytes);
        }
    };
    owners.for_each(now, add);
}

void add_gauges_of(const Process &process, const MemoryGauges &gauges, nanoseconds now,
                   std::uint32_t sites) {
    const LiveAllocations &live = state_of<MemoryState>(process).live;
    const auto add_outstanding = [&](std::int32_t device, cuda_memory_kind kind, Amount amount) {
        const auto values =
            gauge_labels_of(process, {gpu_of(process, device), memory_kind_names.at(kind)});
        add_gauge(gauges.outstanding_bytes, values, amount.bytes);
        add_gauge(gauges.outstanding_allocations, values, amount.count);
    };
    if (live.parts().empty()) {
        add_outstanding(device_of(process, CUDA_DEVICE_UNCHOSEN), MEMORY_device, {});
    }
    for (const auto &[part, amount] : live.parts()) {
        add_outstanding(part.first, part.second, amount);
    }
    const auto aged = live.aged_bytes(now);
    for (std::size_t i = 0; i < aged.size(); i++) {
        add_gauge(gauges.aged_bytes, gauge_labels_of(process, {age_names[i]}), aged[i]);
    }
    for (const auto &[label, bytes] : largest_labels(live.sites(), CallSites::of(process), sites)) {
        add_gauge(gauges.site_bytes, gauge_labels_of(process, {label}), bytes);
    }
}

}  // namespace

void add_memory_gauges(series::FamilySet &gauges, const CudaProcessTable &processes,
                       const MemoryOwners &owners, nanoseconds now, std::uint32_t sites) {
    const MemoryGauges families = make_memory_gauges(gauges);
    processes.for_each([&](const Process &process) {
        if (!process.ended) {
            add_gauges_of(process, families, now, sites);
            add_peaks_of(process, families.peak_bytes, now);
        }
    });
    add_peaks_of_owners(owners, families.owner_peak_bytes, now);
}

}  // namespace gpusnoop::probes
