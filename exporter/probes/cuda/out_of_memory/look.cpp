// What is true when memory is refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "exporter/probes/cuda/memory/live_allocations.h"
#include "exporter/probes/cuda/memory/state.h"
#include "exporter/probes/cuda/out_of_memory/out_of_memory.h"
#include "exporter/probes/cuda/out_of_memory/state.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// What a process holds is noted once a minute, so often.
constexpr std::chrono::minutes between_samples{1};
constexpr std::size_t most_samples = 6;

constexpr std::size_t most_others = 20;
constexpr std::size_t most_named_sites = 64;
// The most allocations that are visited for the call sites of one device.
constexpr std::size_t most_visited = 20'000;

bool is_on_gpu(cuda_memory_kind kind) {
    return kind != MEMORY_pinned_host && kind != MEMORY_managed && kind != MEMORY_vmm_host;
}

// What the process holds on these of its devices.
void add_held(const Process &process, auto &&is_there, MemoryHolder &holder) {
    for (const auto &[part, amount] : state_of<MemoryState>(process).live.parts()) {
        if (is_there(part.first)) {
            holder.bytes.at(part.second) += amount.bytes;
        }
    }
}

MemoryHolder holder_of(const Process &process) {
    MemoryHolder holder;
    holder.pid = process.key.tgid;
    holder.names = process;
    holder.pod_uid = process.pod_uid;
    holder.is_complete = process.is_complete;
    return holder;
}

// The call sites of a device's memory, the largest first. None if the process has too many
// allocations to visit.
SiteBytes sites_of(const Process &process, std::int32_t device) {
    const LiveAllocations &live = state_of<MemoryState>(process).live;
    const bool is_all = std::ranges::all_of(live.parts(), [&](const auto &part) {
        return part.first.first == device && is_on_gpu(part.first.second);
    });
    std::map<Site, std::uint64_t> bytes;
    if (is_all) {
        for (const auto &[site, amount] : live.sites()) {
            bytes[site] += amount.bytes;
        }
    } else if (live.live().size() <= most_visited) {
        for (const auto &[key, allocation] : live.live()) {
            if (allocation.device == device && is_on_gpu(allocation.kind)) {
                bytes[allocation.site] += allocation.bytes;
            }
        }
    }
    SiteBytes sites(bytes.begin(), bytes.end());
    const auto end =
        sites.begin() + static_cast<std::ptrdiff_t>(std::min(sites.size(), most_named_sites));
    std::partial_sort(sites.begin(), end, sites.end(), [](const auto &a, const auto &b) {
        return std::tie(b.second, a.first) < std::tie(a.second, b.first);
    });
    sites.erase(end, sites.end());
    return sites;
}

}  // namespace

std::uint64_t CudaOutOfMemory::held_on(const Process &process, std::int32_t device) {
    MemoryHolder holder;
    add_held(process, [&](std::int32_t its) { return its == device; }, holder);
    return holder.on_gpu();
}

void CudaOutOfMemory::look(const Process &process, Pending &pending, bool at_all) {
    const auto &state = state_of<State>(process);
    OutOfMemory &event = pending.event;
    pending.looked_ns = pending.last_ns;
    event.gpu = gpu_of(process, pending.device);
    const auto is_there = [&](std::int32_t device) { return device == pending.device; };
    event.asker = holder_of(process);
    add_held(process, is_there, event.asker);
    state.add_growth(event.asker, is_there, pending.last_ns);
    pending.sites = at_all ? sites_of(process, pending.device) : SiteBytes();
    pending.has_later_figures = !at_all;
    event.others.clear();
    event.others_left_out = 0;
    event.others_bytes = 0;
    event.managed_bytes = event.asker.bytes[MEMORY_managed];
    event.compares = at_all && event.gpu != "unknown" && !divided_.contains(event.gpu);
    event.memory.reset();
    if (const auto own = state.figures.find(pending.device); own != state.figures.end()) {
        event.memory = own->second.seen_from(pending.last_ns);
        event.memory->is_outdated = !at_all || own->second.differ_from(event.asker.on_gpu()) ||
                                    others_changed(process, event, own->second.at_ns);
    }
    if (event.compares) {
        look_at_others(process, event, pending.last_ns);
    }
}

// On the GPU, or on any that has the same label.
bool CudaOutOfMemory::others_changed(const Process &asker, const OutOfMemory &event,
                                     std::uint64_t since_ns) const {
    const std::chrono::nanoseconds since = monotonic_time(since_ns);
    bool changed = false;
    processes_.for_each([&](const Process &process) {
        const bool has_ended = process.ended && *process.ended > since;
        for (const auto &[device, at_ns] : state_of<State>(process).changed_ns) {
            changed = changed || (&process != &asker && (has_ended || at_ns > since_ns) &&
                                  (device < 0 || gpu_of(process, device) == event.gpu));
        }
    });
    return changed;
}

// Processes that are told different sizes have different parts of the GPU. What another process was
// told is free is of no use: it is not known what has changed since.
void CudaOutOfMemory::look_at_others(const Process &asker, OutOfMemory &event,
                                     std::uint64_t at_ns) const {
    std::vector<std::pair<const Process *, MemoryHolder>> others;
    std::optional<MemoryFigures> figures = event.memory;
    bool is_divided = false;
    processes_.for_each([&](const Process &process) {
        if (process.ended || &process == &asker) {
            return;
        }
        const auto &state = state_of<State>(process);
        const auto is_there = [&](std::int32_t device) {
            return gpu_of(process, device) == event.gpu;
        };
        for (const auto &[device, read] : state.figures) {
            if (!is_there(device)) {
                continue;
            }
            MemoryFigures seen = read.seen_from(at_ns);
            seen.is_outdated = true;
            is_divided = is_divided || (figures && figures->total != seen.total);
            if (!figures || (!event.memory && seen.age < figures->age)) {
                figures = seen;
            }
        }
        MemoryHolder holder;
        add_held(process, is_there, holder);
        if (std::ranges::any_of(holder.bytes, [](std::uint64_t bytes) { return bytes > 0; })) {
            event.others_bytes += holder.on_gpu();
            event.managed_bytes += holder.bytes[MEMORY_managed];
            others.emplace_back(&process, std::move(holder));
        }
    });
    if (is_divided) {
        event.compares = false;
        event.others_bytes = 0;
        return;
    }
    event.memory = figures;
    std::ranges::sort(others, [](const auto &a, const auto &b) {
        return std::pair(b.second.on_gpu(), a.first->key.tgid) <
               std::pair(a.second.on_gpu(), b.first->key.tgid);
    });
    event.others_left_out = others.size() - std::min(others.size(), most_others);
    others.resize(others.size() - event.others_left_out);
    for (const auto &[process, held] : others) {
        MemoryHolder &holder = event.others.emplace_back(holder_of(*process));
        holder.bytes = held.bytes;
        state_of<State>(*process).add_growth(
            holder, [&](std::int32_t device) { return gpu_of(*process, device) == event.gpu; },
            at_ns);
    }
}

void CudaOutOfMemory::tidy(nanoseconds now) {
    processes_.for_each([&](Process &process) {
        auto &samples = state_of<State>(process).samples;
        if (process.ended || (!samples.empty() && now - samples.back().at < between_samples)) {
            return;
        }
        if (samples.empty() && process.is_complete) {  // it held nothing before its first call
            samples.push_back({.at = monotonic_time(process.key.since_ns)});
        }
        State::Sample &sample = samples.emplace_back(State::Sample{.at = now});
        for (const auto &[part, amount] : state_of<MemoryState>(process).live.parts()) {
            if (is_on_gpu(part.second)) {
                sample.bytes[part.first] += amount.bytes;
            }
        }
        if (samples.size() > most_samples) {
            samples.pop_front();
        }
    });
}

}  // namespace gpusnoop::probes
