#include "exporter/probes/cuda/memory/memory_peaks.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "exporter/probes/cuda/memory/state.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

bool is_counted(const Allocation &allocation) {
    return !MEMORY_IS_HOST(allocation.kind);
}

}  // namespace

void ProcessMemory::begin(const Process &process, MemoryOwners &owners, bool is_complete) {
    const nanoseconds since(static_cast<std::int64_t>(process.key.since_ns));
    own_.emplace(since);
    if (!ended_) {
        owners_ = owners_of(process);
        accounts_ = owners.join(owners_, since);
    }
    if (!is_complete) {
        note_incomplete();
    }
}

ProcessMemory::Place *ProcessMemory::find(std::int32_t device) {
    const auto found = std::ranges::find(places_, device, &Place::device);
    return found == places_.end() ? nullptr : &*found;
}

ProcessMemory::Place &ProcessMemory::place_of(const Process &process, std::int32_t device) {
    if (Place *const known = find(device)) {
        return *known;
    }
    const std::string gpu = gpu_of(process, device);
    Place place{.device = device, .own = &own_->join(gpu)};
    for (MemoryAccount *const account : accounts_) {
        place.of_owners.push_back(&account->join(gpu));
    }
    return places_.emplace_back(std::move(place));
}

void ProcessMemory::add(const Process &process, const Allocation &allocation, nanoseconds at,
                        MemoryOwners &owners, bool is_complete) {
    if (!is_counted(allocation)) {
        return;
    }
    if (!own_) {
        begin(process, owners, is_complete);
    }
    Place &place = place_of(process, allocation.device);
    place.bytes += allocation.bytes;
    place.own->held.add(allocation.bytes, at);
    for (MemoryAccount::OnGpu *const of_owner : place.of_owners) {
        of_owner->held.add(allocation.bytes, at);
    }
}

void ProcessMemory::subtract(const Allocation &allocation, nanoseconds at) {
    Place *const place = is_counted(allocation) ? find(allocation.device) : nullptr;
    if (place == nullptr) {
        return;
    }
    place->bytes -= allocation.bytes;
    place->own->held.subtract(allocation.bytes, at);
    for (MemoryAccount::OnGpu *const of_owner : place->of_owners) {
        of_owner->held.subtract(allocation.bytes, at);
    }
}

void ProcessMemory::look_again(const Process &process, nanoseconds now) {
    if (!process.is_complete) {
        note_incomplete();
    }
    for (Place &place : places_) {
        if (place.own->gpu != "unknown") {
            continue;
        }
        const std::string gpu = gpu_of(process, place.device);
        if (gpu == "unknown") {
            continue;
        }
        place.own = &own_->move(*place.own, gpu, place.bytes, now);
        for (std::size_t i = 0; i < place.of_owners.size(); i++) {
            place.of_owners[i] = &accounts_[i]->move(*place.of_owners[i], gpu, place.bytes, now);
        }
    }
}

void ProcessMemory::note_incomplete() {
    if (own_) {
        own_->note_incomplete();
    }
    for (MemoryAccount *const account : accounts_) {
        account->note_incomplete();
    }
}

void ProcessMemory::end(MemoryOwners &owners, nanoseconds at) {
    ended_ = at;
    for (Place &place : places_) {
        for (MemoryAccount::OnGpu *const of_owner : place.of_owners) {
            of_owner->held.subtract(place.bytes, at);
        }
        place.of_owners.clear();
    }
    accounts_.clear();
    owners.leave(owners_, at);
    owners_.clear();
}

HeldMemory ProcessMemory::held(const Process &process, nanoseconds until) const {
    if (!own_) {
        return {.since = nanoseconds(static_cast<std::int64_t>(process.key.since_ns)),
                .is_complete = process.is_complete};
    }
    HeldMemory held = own_->held(ended_ ? std::min(until, *ended_) : until);
    held.is_complete = held.is_complete && process.is_complete;
    return held;
}

HeldMemory held_by(const Process &process, nanoseconds until) {
    return state_of<MemoryState>(process).held.held(process, until);
}

}  // namespace gpusnoop::probes
