// The part of the CUDA aggregator that depends on the order of events: allocations, frees, and the
// ends of processes.
#include <algorithm>
#include <array>

#include "exporter/probes/cuda/aggregator.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// Resets and displaced allocations of a process are noted until the kernel's table has been read.
// With many of them that is asked for; past the most, which only a program that plays with us
// reaches before it is done, they are forgotten and counted.
constexpr std::size_t many_noted = 1'024;
constexpr std::size_t most_noted = 16'384;
constexpr std::size_t max_sites = 4'096;  // of a process, that are named

nanoseconds ended_at(const auto &record) {
    return nanoseconds(
        static_cast<std::int64_t>(std::min<std::uint64_t>(record.head.ended_ns, INT64_MAX)));
}

LiveEntry live_entry(const Process &process, const AllocationBook::Key &key) {
    return {{key.address, process.key.since_ns, process.key.tgid,
             key.is_handle ? CUDA_LIVE_HANDLES : CUDA_LIVE_MEMORY},
            static_cast<std::uint64_t>(key.born_ns)};
}

cuda_memory_kind memory_kind(std::uint16_t kind) {
    return kind < MEMORY_KIND_COUNT ? static_cast<cuda_memory_kind>(kind) : MEMORY_device;
}

}  // namespace

void CudaAggregator::settle(nanoseconds until) {
    count_named();
    const auto time_of = [](const BookEvent &event) {
        return std::visit([](const auto &record) { return ended_at(record); }, event);
    };
    if (!std::ranges::is_sorted(pending_, {}, time_of)) {  // they nearly always are
        std::ranges::stable_sort(pending_, {}, time_of);
    }
    const auto end = std::ranges::upper_bound(pending_, until, {}, time_of);
    // Taken out first: entering an event can make the aggregator catch up and add further ones.
    std::vector<BookEvent> due(pending_.begin(), end);
    pending_.erase(pending_.begin(), end);
    for (const BookEvent &event : due) {
        std::visit([this](const auto &record) { enter(record); }, event);
    }
}

// A thread that was never seen to choose a device is on the first one, if we saw all it did.
std::int32_t CudaAggregator::device_of(const Process &process, std::int32_t device) {
    if (device == CUDA_DEVICE_UNCHOSEN) {
        return process.book_is_complete ? 0 : CUDA_DEVICE_UNCHOSEN;
    }
    return device < max_devices ? std::max(device, CUDA_DEVICE_UNKNOWN) : CUDA_DEVICE_UNKNOWN;
}

std::string CudaAggregator::gpu_of(const Process &process, std::int32_t device) {
    return process.gpu_name(device < 0 ? std::nullopt
                                       : std::optional(static_cast<std::uint32_t>(device)));
}

MemorySlots &CudaAggregator::memory_slots(Process &process, std::int32_t device, std::size_t kind) {
    return process.memory_slots[slot_key(device, kind)];
}

void CudaAggregator::count_allocation(Process &process, std::int32_t device, std::size_t kind,
                                      std::uint64_t bytes) {
    MemorySlots &slots = memory_slots(process, device, kind);
    if (!slots.allocations) {
        const auto values = labels(process, {gpu_of(process, device), memory_kind_names.at(kind)});
        slots.allocations = families_.allocations.slot(process.owner, values);
        slots.allocated_bytes = families_.allocated_bytes.slot(process.owner, values);
    }
    families_.allocations.add(*slots.allocations, 1);
    families_.allocated_bytes.add(*slots.allocated_bytes, bytes);
}

void CudaAggregator::count_free(Process &process, std::int32_t device, std::size_t kind,
                                std::uint64_t bytes) {
    MemorySlots &slots = memory_slots(process, device, kind);
    if (!slots.frees) {
        const auto values = labels(process, {gpu_of(process, device), memory_kind_names.at(kind)});
        slots.frees = families_.frees.slot(process.owner, values);
        slots.freed_bytes = families_.freed_bytes.slot(process.owner, values);
    }
    families_.frees.add(*slots.frees, 1);
    families_.freed_bytes.add(*slots.freed_bytes, bytes);
}

void CudaAggregator::enter(const cuda_allocation_record &record) {
    Process &process = process_of(record.head);
    if (record.head.type == CUDA_RECORD_FREE) {
        return free_memory(process, record);
    }
    const Allocation allocation{.bytes = record.bytes,
                                .born_ns = static_cast<std::int64_t>(record.born_ns),
                                .context = record.context,
                                .site = {record.stack, record.caller},
                                .device = device_of(process, record.head.device),
                                .kind = memory_kind(record.kind),
                                .untabled = (record.flags & CUDA_ALLOCATION_UNTABLED) != 0};
    if (record.address == 0) {  // one of 0 bytes has no address and is never freed
        return count_allocation(process, allocation.device, allocation.kind, record.bytes);
    }
    if ((record.flags & CUDA_ALLOCATION_REPLACES) != 0) {
        for (const Allocation &gone : process.book.forget_older(
                 {allocation.kind == MEMORY_vmm, record.address, allocation.born_ns})) {
            count_free(process, gone.device, gone.kind, gone.bytes);
        }
    }
    if (enter_allocation(process, record.address, allocation)) {
        count_allocation(process, allocation.device, allocation.kind, record.bytes);
    } else if (allocation.untabled) {  // a free failed, and the way back into the table was barred
        process.book.note_untabled(
            {allocation.kind == MEMORY_vmm, record.address, allocation.born_ns});
    }
}

// An allocation that has taken the place of a forgotten one may have been out of the table for a
// moment, and freed in it.
void CudaAggregator::forget_live(Process &process, std::span<const LiveEntry> entries) {
    for (const auto &[key, born_ns] : surroundings_.forget_live(entries)) {
        const AllocationBook::Key displaced{key.space == CUDA_LIVE_HANDLES, key.address,
                                            static_cast<std::int64_t>(born_ns)};
        if (process.book.note_untabled(displaced)) {
            continue;
        }
        wants_reconciling_ = wants_reconciling_ || process.displaced.size() >= many_noted;
        if (process.displaced.size() < most_noted) {
            process.displaced.insert(displaced);
        } else {
            forgotten_++;
        }
    }
}

// False: it is there already, from the table of live allocations.
bool CudaAggregator::enter_allocation(Process &process, std::uint64_t address,
                                      const Allocation &allocation) {
    if (!process.book.allocate(address, allocation)) {
        return false;
    }
    const AllocationBook::Key key{allocation.kind == MEMORY_vmm, address, allocation.born_ns};
    if (process.displaced.erase(key) > 0) {
        process.book.note_untabled(key);
    }
    process.has_handles = process.has_handles || allocation.kind == MEMORY_vmm;
    const std::int32_t stack = allocation.site.stack;
    if (stack >= 0 && process.stacks.insert(stack).second) {
        stack_users_[stack]++;
    }
    if (!process.site_names.contains(allocation.site) && process.site_names.size() < max_sites) {
        ask_for_site(process, allocation.site);
    }
    return true;
}

void CudaAggregator::ask_for_site(Process &process, const Site &site) {
    process.site_names.try_emplace(site);
    const std::uint64_t ticket = next_ticket_++;
    site_tickets_.emplace(ticket, std::pair(process.key, site));
    surroundings_.ask_for_site(ticket, process, site);
}

void CudaAggregator::on_site_name(symbols::StackReply answer) {
    const auto ticket = site_tickets_.find(answer.ticket);
    if (ticket == site_tickets_.end()) {
        return;
    }
    const auto [key, site] = ticket->second;
    site_tickets_.erase(ticket);
    if (Process *const process = processes_.find(key)) {
        SiteName &name = process->site_names[site];
        name.label = symbols::site_label(answer.frames);
        if (name.label.empty()) {
            name.label = "unknown";
        }
        name.frames = std::move(answer.frames);
    }
}

void CudaAggregator::free_memory(Process &process, const cuda_allocation_record &record) {
    const std::int32_t device = device_of(process, record.head.device);
    const cuda_memory_kind kind = memory_kind(record.kind);
    if ((record.flags & CUDA_ALLOCATION_KNOWN) == 0) {
        const std::uint64_t began =
            record.head.ended_ns - std::min(record.head.ended_ns, record.head.duration_ns);
        const auto untabled = process.book.find_untabled(
            kind == MEMORY_vmm, record.address,
            static_cast<std::int64_t>(std::min<std::uint64_t>(began, INT64_MAX)));
        if (untabled) {
            const auto &[key, allocation] = *untabled;
            process.book.free(key);
            count_free(process, allocation.device, allocation.kind, allocation.bytes);
            // Where the table did not have it for a moment, it does now.
            const std::array entry = {live_entry(process, key)};
            forget_live(process, entry);
            return;
        }
        MemorySlots &slots = memory_slots(process, device, kind);
        if (!slots.unknown_frees) {
            slots.unknown_frees = families_.unknown_frees.slot(
                process.owner,
                labels(process, {gpu_of(process, device), memory_kind_names.at(kind)}));
        }
        families_.unknown_frees.add(*slots.unknown_frees, 1);
        return;
    }
    const AllocationBook::Key key{kind == MEMORY_vmm, record.address,
                                  static_cast<std::int64_t>(record.born_ns)};
    if (watches_frees_) {
        watched_frees_.insert({process.key, key});
    }
    if (!process.book.free(key)) {
        if (process.presumed_freed.erase(key) > 0) {
            return;  // it is counted
        }
        // Where its allocation's record was lost, that is made good here.
        if (key.born_ns >= settings_.started.count()) {
            count_allocation(process, device, kind, record.bytes);
        }
    }
    count_free(process, device, kind, record.bytes);
}

void CudaAggregator::enter(const cuda_mapping_record &record) {
    Process &process = process_of(record.head);
    process.has_handles = true;
    if (record.head.type == CUDA_RECORD_MAP) {
        process.book.map(record.address, record.bytes);
    } else {
        process.book.unmap(record.address, record.bytes);
        process.has_rests = process.has_rests || record.is_unfinished != 0;
        wants_reconciling_ = wants_reconciling_ || record.is_unfinished != 0;
    }
}

// Was it in a context that went since?
bool CudaAggregator::is_gone(const Process &process, const Allocation &allocation) {
    if (allocation.kind == MEMORY_vmm) {
        return false;
    }
    const auto reset = process.resets.find(reset_key(allocation.context, allocation.device));
    return reset != process.resets.end() && allocation.born_ns <= reset->second;
}

void CudaAggregator::enter(const cuda_reset_record &record) {
    Process &process = process_of(record.head);
    const ResetKey reset = reset_key(record.context, device_of(process, record.head.device));
    wants_reconciling_ = wants_reconciling_ || process.resets.size() >= many_noted;
    if (process.resets.size() >= most_noted && !process.resets.contains(reset)) {
        process.resets.erase(std::prev(process.resets.end()));
        forgotten_++;
    }
    process.resets[reset] = ended_at(record).count();
    std::vector<std::pair<AllocationBook::Key, Allocation>> gone;
    std::ranges::copy_if(process.book.live(), std::back_inserter(gone),
                         [&](const auto &entry) { return is_gone(process, entry.second); });
    std::vector<LiveEntry> entries;
    for (const auto &[key, allocation] : gone) {
        process.book.free(key);
        count_free(process, allocation.device, allocation.kind, allocation.bytes);
        entries.push_back(live_entry(process, key));
    }
    forget_live(process, entries);
}

void CudaAggregator::enter(const cuda_exit_record &record) {
    Process *const process = processes_.find({record.head.tgid, record.head.since_ns});
    if (process == nullptr) {
        return;
    }
    // What it did before this exporter was there, only the table knows.
    const bool is_older =
        process->key.since_ns < static_cast<std::uint64_t>(settings_.started.count());
    end(*process, ended_at(record), is_older || process->has_rests || record.lost_allocations > 0);
}

}  // namespace gpusnoop::probes
