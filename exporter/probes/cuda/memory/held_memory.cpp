#include "exporter/probes/cuda/memory/held_memory.h"

#include <algorithm>
#include <utility>

namespace gpusnoop::probes {

std::uint64_t HeldMemory::mean_bytes(const HeldOnGpu &gpu, std::chrono::nanoseconds until) const {
    const double seconds = std::chrono::duration<double>(until - since).count();
    return seconds > 0 ? static_cast<std::uint64_t>(gpu.byte_seconds / seconds + 0.5) : gpu.bytes;
}

MemoryAccount::OnGpu &MemoryAccount::join(const std::string &gpu) {
    OnGpu &place = gpus_.try_emplace(gpu, OnGpu{.gpu = gpu, .held = {}}).first->second;
    place.devices++;
    return place;
}

MemoryAccount::OnGpu &MemoryAccount::move(OnGpu &from, const std::string &to, std::uint64_t bytes,
                                          std::chrono::nanoseconds at) {
    if (from.devices == 1 && !gpus_.contains(to)) {  // it has been that GPU from the beginning
        auto node = gpus_.extract(from.gpu);
        node.key() = to;
        node.mapped().gpu = to;
        return gpus_.insert(std::move(node)).position->second;
    }
    from.held.subtract(bytes, at);
    OnGpu &place = join(to);
    place.held.add(bytes, at);
    if (--from.devices == 0) {
        place.held.raise_peak(from.held.peak());
        place.held.add_byte_seconds(from.held.byte_seconds(at));
        gpus_.erase(from.gpu);
    }
    note_incomplete();  // how much both held together before is not known
    return place;
}

HeldMemory MemoryAccount::held(std::chrono::nanoseconds until) const {
    HeldMemory held{.since = since_, .is_complete = is_complete_};
    for (const auto &[gpu, place] : gpus_) {
        held.gpus.push_back({.gpu = gpu,
                             .bytes = place.held.bytes(),
                             .peak_bytes = place.held.peak(),
                             .byte_seconds = place.held.byte_seconds(until),
                             .held_since = place.held.held_since()});
    }
    return held;
}

using std::chrono::nanoseconds;

std::vector<MemoryAccount *> MemoryOwners::join(const std::vector<JobOwner> &owners,
                                                nanoseconds since) {
    std::vector<MemoryAccount *> accounts;
    for (const JobOwner &owner : owners) {
        Known &known = owners_.try_emplace(owner, since).first->second;
        known.processes++;
        accounts.push_back(&known.account);
    }
    return accounts;
}

void MemoryOwners::leave(const std::vector<JobOwner> &owners, nanoseconds at) {
    for (const JobOwner &owner : owners) {
        Known &known = owners_.at(owner);
        known.processes--;
        known.left = std::max(known.left, at);
    }
}

void MemoryOwners::expire(nanoseconds now, nanoseconds retention) {
    std::erase_if(owners_, [&](const auto &entry) {
        return entry.second.processes == 0 && now - entry.second.left >= retention;
    });
}

std::optional<HeldMemory> MemoryOwners::held_by(const JobOwner &owner, nanoseconds until) const {
    const auto found = owners_.find(owner);
    return found == owners_.end() ? std::nullopt : std::optional(found->second.account.held(until));
}

}  // namespace gpusnoop::probes
