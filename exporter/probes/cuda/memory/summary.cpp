#include "exporter/probes/cuda/memory/summary.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "exporter/probes/cuda/errors.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/launches/launches.h"
#include "exporter/probes/cuda/memory/call_sites.h"
#include "exporter/probes/cuda/memory/counters.h"
#include "exporter/probes/cuda/memory/memory_peaks.h"
#include "exporter/probes/cuda/memory/state.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

namespace {

const LiveAllocations &live_of(const Process &process) {
    return state_of<MemoryState>(process).live;
}

struct HeldBy {
    const Process *process;
    std::string_view site;
    Amount amount;
};

// The most bytes first; of equal amounts, by process id and site.
bool is_before(const HeldBy &a, const HeldBy &b) {
    return std::tuple(b.amount.bytes, a.process->key.tgid, a.site) <
           std::tuple(a.amount.bytes, b.process->key.tgid, b.site);
}

void keep_first(std::vector<HeldBy> &all, std::size_t count) {
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()));
    std::partial_sort(all.begin(), end, all.end(), is_before);
    all.erase(end, all.end());
}

// The sums by label, as in the metric; sites without a label are one sum.
void add_sites(const Process &process, std::vector<HeldBy> &all) {
    std::map<std::string_view, Amount> by_label;
    for (const auto &[site, amount] : live_of(process).sites()) {
        Amount &sum = by_label[CallSites::name_of(process, site).label];
        sum.bytes += amount.bytes;
        sum.count += amount.count;
    }
    for (const auto &[label, amount] : by_label) {
        all.push_back({&process, label, amount});
    }
}

ProcessOverview overview_of(const Process &process) {
    std::set<std::string> gpus;
    for (const auto &[part, amount] : live_of(process).parts()) {
        gpus.insert(gpu_of(process, part.first));
    }
    if (gpus.empty()) {
        gpus.insert(gpu_of(process, device_of(process, CUDA_DEVICE_UNCHOSEN)));
    }
    CallCounts calls = CudaErrors::counts(process);
    calls.launches = CudaLaunches::launched(process);
    return {.pid = process.key.tgid,
            .since_ns = process.key.since_ns,
            .names = process,
            .exe = process.exe,
            .gpus = {gpus.begin(), gpus.end()},
            .outstanding = live_of(process).all(),
            .calls = calls,
            .is_complete = process.is_complete};
}

// Device memory by the label `gpu`. Pinned memory is the host's.
std::map<std::string, std::uint64_t> device_bytes_of(const Process &process) {
    std::map<std::string, std::uint64_t> bytes;
    for (const auto &[part, amount] : live_of(process).parts()) {
        if (part.second != MEMORY_pinned_host) {
            bytes[gpu_of(process, part.first)] += amount.bytes;
        }
    }
    return bytes;
}

// Shorter numbers are smaller ones.
struct NumbersInOrder {
    bool operator()(const std::string &a, const std::string &b) const {
        return std::tuple(a.size(), a) < std::tuple(b.size(), b);
    }
};
using Gpus = std::map<std::string, GpuOverview, NumbersInOrder>;

void add_holder(Gpus &gpus, const Process &process) {
    for (const auto &[gpu, bytes] : device_bytes_of(process)) {
        if (bytes == 0 || (gpus.size() >= max_overview_gpus && !gpus.contains(gpu))) {
            continue;
        }
        GpuOverview &one = gpus[gpu];
        one.gpu = gpu;
        one.bytes += bytes;
        one.holder_count++;
        const auto place =
            std::ranges::upper_bound(one.holders, bytes, std::greater<>(), &HolderOverview::bytes);
        if (place - one.holders.begin() < static_cast<std::ptrdiff_t>(max_overview_holders)) {
            one.holders.insert(place, {.pid = process.key.tgid, .names = process, .bytes = bytes});
            one.holders.resize(std::min(one.holders.size(), max_overview_holders));
        }
    }
}

}  // namespace

std::vector<ProcessAllocations> memory_allocations(const CudaProcessTable &processes) {
    std::vector<ProcessAllocations> all;
    processes.for_each([&](const Process &process) {
        if (process.ended) {
            return;
        }
        ProcessAllocations &one = all.emplace_back(allocations_of(process));
        one.amount = live_of(process).all();
        one.is_complete = process.is_complete;
        one.sites = largest_first(live_of(process).sites(), CallSites::of(process));
    });
    return all;
}

MemoryOverview memory_overview(const CudaProcessTable &all_processes,
                               std::span<const discovery::Gpu> node) {
    MemoryOverview memory;
    Gpus gpus;
    for (const discovery::Gpu &gpu : node.first(std::min(node.size(), max_overview_gpus))) {
        const std::string label = std::to_string(gpu.index);
        gpus[label] = {.gpu = label, .name = gpu.name, .holders = {}};
    }
    std::vector<HeldBy> processes;
    std::vector<HeldBy> sites;
    all_processes.for_each([&](const Process &process) {
        if (process.ended) {
            return;
        }
        const Amount all = live_of(process).all();
        memory.outstanding.bytes += all.bytes;
        memory.outstanding.count += all.count;
        memory.is_complete = memory.is_complete && process.is_complete;
        memory.process_count++;
        processes.push_back({&process, {}, all});
        add_holder(gpus, process);
        const std::size_t before = sites.size();
        add_sites(process, sites);
        memory.site_count += sites.size() - before;
        // Bounds the memory: a node has far more call sites than are shown.
        if (sites.size() > 64 * max_overview_sites) {
            keep_first(sites, max_overview_sites);
        }
    });
    keep_first(processes, max_overview_processes);
    keep_first(sites, max_overview_sites);
    for (const HeldBy &one : processes) {
        memory.processes.push_back(overview_of(*one.process));
    }
    for (const HeldBy &one : sites) {
        memory.sites.push_back({.pid = one.process->key.tgid,
                                .names = *one.process,
                                .site = std::string(one.site),
                                .outstanding = one.amount});
    }
    for (auto &[label, gpu] : gpus) {
        memory.gpus.push_back(std::move(gpu));
    }
    return memory;
}

std::vector<ProcessSample> memory_samples(const CudaProcessTable &all_processes, std::size_t most) {
    std::vector<HeldBy> processes;
    all_processes.for_each([&](const Process &process) {
        if (!process.ended) {
            processes.push_back({&process, {}, live_of(process).all()});
        }
    });
    keep_first(processes, most);
    std::vector<ProcessSample> samples;
    for (const HeldBy &one : processes) {
        samples.push_back({.key = one.process->key,
                           .bytes = one.amount.bytes,
                           .launches = CudaLaunches::launched(*one.process)});
    }
    return samples;
}

GpuProcessEnd end_of(const Process &process) {
    return {.key = process.key,
            .ended = *process.ended,
            .device_bytes = device_bytes_of(process),
            .is_complete = process.is_complete};
}

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
