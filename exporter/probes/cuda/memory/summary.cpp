#include "exporter/probes/cuda/memory/summary.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "exporter/probes/cuda/errors.h"
#include "exporter/probes/cuda/launches/launches.h"
#include "exporter/probes/cuda/memory/call_sites.h"
#include "exporter/probes/cuda/memory/state.h"

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

}  // namespace gpusnoop::probes
