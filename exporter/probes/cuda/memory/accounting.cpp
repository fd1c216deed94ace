#include "exporter/probes/cuda/memory/accounting.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "exporter/probes/cuda/memory/state.h"
#include "exporter/probes/cuda/memory/summary.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// Resets and briefly missing allocations of a process are noted until the kernel's table has been
// read. Many of them request a read of the table. Over the limit, which only a hostile program
// reaches before the read, they are forgotten and counted.
constexpr std::size_t many_noted = 1'024;
constexpr std::size_t most_noted = 16'384;

// The limit of the wait of an ended process, if the table cannot be read.
constexpr std::chrono::minutes max_waiting_for_table{10};

// Sites that hold nothing are forgotten after one to two of these.
constexpr std::chrono::minutes between_looks_for_idle{1};

LiveEntry live_entry(const Process &process, const LiveAllocations::Key &key) {
    return {{key.address, process.key.since_ns, process.key.tgid,
             key.is_handle ? CUDA_LIVE_HANDLES : CUDA_LIVE_MEMORY},
            static_cast<std::uint64_t>(key.born_ns)};
}

}  // namespace

MemoryAccounting::MemoryAccounting(series::FamilySet &families, const CudaProcessTable &processes,
                                   const CudaCallbacks &callbacks, nanoseconds started)
    : processes_(processes),
      callbacks_(callbacks),
      started_(started),
      now_(started),
      nodes_(std::make_shared<std::pmr::unsynchronized_pool_resource>()),
      counters_(families),
      sites_(processes, callbacks) {}

void MemoryAccounting::started(Process &process) {
    add_state<MemoryState>(process, nodes_);
    MemoryCounters::started(process);
    CallSites::started(process);
}

void MemoryAccounting::ended(Process &process, bool is_incomplete) {
    auto &state = state_of<MemoryState>(process);
    if (is_incomplete || !process.is_complete) {
        state.held.note_incomplete();
    }
    state.held.end(owners_, *process.ended);
    if (is_incomplete || state.has_unfinished_unmaps) {
        state.awaits_table = true;
        want_reconciling();
    } else {
        count_unfreed(process);
    }
}

void MemoryAccounting::count_unfreed(Process &process) {
    auto &state = state_of<MemoryState>(process);
    if (std::exchange(state.awaits_table, false)) {
        // The retention begins when the last allocations are counted.
        process.ended = std::max(*process.ended, now_);
    }
    counters_.left_unfreed(process, state.live.parts());
    callbacks_.left_unfreed(end_of(process));
    drop_from_table(process);
    state.live = LiveAllocations(nodes_.get());
}

// The table keeps the entries of an ended process until the exporter removes them.
void MemoryAccounting::drop_from_table(Process &process) {
    const auto &state = state_of<MemoryState>(process);
    std::vector<LiveEntry> entries;
    for (const auto &[key, allocation] : state.live.live()) {
        entries.push_back(live_entry(process, key));
    }
    (void)callbacks_.forget_live(entries);
    // Mappings and handles from other processes are no live allocations of its own.
    want_reconciling(state.has_handles);
    sites_.ended(process);
}

void MemoryAccounting::tidy(nanoseconds now, nanoseconds retention) {
    now_ = now;
    const bool looks_for_idle = now - looked_for_idle_ >= between_looks_for_idle;
    looked_for_idle_ = looks_for_idle ? now : looked_for_idle_;
    processes_.for_each([&](Process &process) {
        auto &state = state_of<MemoryState>(process);
        if (looks_for_idle && !process.ended) {
            const auto &live = state.live.sites();
            CallSites::forget_idle(process, [&](const Site &site) { return live.contains(site); });
        }
        if (state.awaits_table && now - *process.ended > max_waiting_for_table) {
            count_unfreed(process);
        }
        if (!process.ended) {
            state.held.look_again(process, now);
        }
    });
    owners_.expire(now, retention);
}

void MemoryAccounting::note_losses(Process &process) {
    state_of<MemoryState>(process).held.note_incomplete();
}

std::set<std::uint64_t> MemoryAccounting::python_stacks() const {
    std::set<std::uint64_t> stacks;
    processes_.for_each([&](const Process &process) {
        for (const auto &[site, amount] : state_of<MemoryState>(process).live.sites()) {
            stacks.insert(site.python);
        }
    });
    return stacks;
}

bool MemoryAccounting::is_done_with(const Process &process) {
    return !state_of<MemoryState>(process).awaits_table;
}

bool MemoryAccounting::is_on_device(const Process &process, std::uint64_t address) {
    return state_of<MemoryState>(process).live.is_on_device(address);
}

void MemoryAccounting::apply(Process &process, const cuda_allocation_record &record) {
    if (record.head.type == CUDA_RECORD_FREE) {
        return apply_free(process, record);
    }
    const Allocation allocation{
        .bytes = record.bytes,
        .born_ns = static_cast<std::int64_t>(record.born_ns),
        .context = record.context,
        .site = {record.stack, record.caller, record.python},
        .device = device_of(process, record.head.device),
        .kind = memory_kind_of(record.kind),
        .never_in_kernel_table = (record.flags & CUDA_ALLOCATION_UNTABLED) != 0};
    if (record.address == 0) {  // one of 0 bytes has no address and is never freed
        return counters_.allocated(process, allocation);
    }
    auto &state = state_of<MemoryState>(process);
    LiveAllocations &live = state.live;
    const nanoseconds at = ended_at(record.head);
    const auto key = LiveAllocations::key_of(record.address, allocation);
    if ((record.flags & CUDA_ALLOCATION_REPLACES) != 0) {
        for (const Allocation &gone : live.forget_older(key)) {
            state.held.subtract(gone, at);
            state.held.note_incomplete();  // they ended before, and when is not known
            counters_.freed(process, gone);
        }
    }
    if (add(process, record.address, allocation, at)) {
        counters_.allocated(process, allocation);
    } else if (allocation.never_in_kernel_table) {
        // A free failed, and the table had no room to restore its entry.
        live.note_never_in_kernel_table(key);
    }
}

// False: it was already added from the table.
bool MemoryAccounting::add(Process &process, std::uint64_t address, const Allocation &allocation,
                           nanoseconds at) {
    auto &state = state_of<MemoryState>(process);
    if (!state.live.allocate(address, allocation)) {
        return false;
    }
    const bool is_younger = process.key.since_ns >= static_cast<std::uint64_t>(started_.count());
    state.held.add(process, allocation, at, owners_, is_younger);
    const auto key = LiveAllocations::key_of(address, allocation);
    if (state.briefly_missing.erase(key) > 0) {
        state.live.note_briefly_missing(key);
    }
    state.has_handles = state.has_handles || MEMORY_HAS_HANDLE(allocation.kind);
    sites_.used(process, allocation.site);
    return true;
}

void MemoryAccounting::add_from_table(Process &process, const LiveAllocations::Key &key,
                                      const Allocation &allocation) {
    if (watched_ && watched_->frees.contains({process.key, key})) {
        return;
    }
    if (add(process, key.address, allocation, nanoseconds(allocation.born_ns)) &&
        allocation.born_ns >= started_.count()) {
        counters_.allocated(process, allocation);
    }
}

void MemoryAccounting::map_from_table(Process &process, std::uint64_t address,
                                      const LiveAllocations::Mapping &mapping) {
    auto &state = state_of<MemoryState>(process);
    state.has_handles = true;
    if (!watched_ ||
        !watched_->mappings.contains({process.key, {false, address, mapping.born_ns}})) {
        state.live.map(address, mapping);
    }
}

void MemoryAccounting::free(Process &process, const LiveAllocations::Key &key,
                            const Allocation &allocation, nanoseconds at) {
    auto &state = state_of<MemoryState>(process);
    if (state.live.free(key)) {
        state.held.subtract(allocation, at);
    }
    counters_.freed(process, allocation);
}

// A new allocation at the address of a removed entry may have been missing from the table for a
// moment, and freed in that moment.
void MemoryAccounting::forget_in_table(Process &process, std::span<const LiveEntry> entries) {
    auto &state = state_of<MemoryState>(process);
    for (const auto &[key, born_ns] : callbacks_.forget_live(entries)) {
        const LiveAllocations::Key missing{key.space == CUDA_LIVE_HANDLES, key.address,
                                           static_cast<std::int64_t>(born_ns)};
        if (state.live.note_briefly_missing(missing)) {
            continue;
        }
        want_reconciling(state.briefly_missing.size() >= many_noted);
        if (state.briefly_missing.size() < most_noted) {
            state.briefly_missing.insert(missing);
        } else {
            forgotten_++;
        }
    }
}

void MemoryAccounting::apply_free(Process &process, const cuda_allocation_record &record) {
    if ((record.flags & CUDA_ALLOCATION_KNOWN) == 0) {
        return apply_free_of_unknown(process, record);
    }
    const std::int32_t device = device_of(process, record.head.device);
    const cuda_memory_kind kind = memory_kind_of(record.kind);
    const LiveAllocations::Key key{MEMORY_HAS_HANDLE(kind), record.address,
                                   static_cast<std::int64_t>(record.born_ns)};
    if (watched_) {
        watched_->frees.insert({process.key, key});
    }
    auto &state = state_of<MemoryState>(process);
    if (const auto freed = state.live.free(key)) {
        state.held.subtract(*freed, ended_at(record.head));
    } else {
        if (state.assumed_freed.erase(key) > 0) {
            return;  // it is counted already
        }
        // If the record of its allocation was lost, count the allocation now.
        if (key.born_ns >= started_.count()) {
            counters_.allocated(process, device, kind, record.bytes);
        }
    }
    counters_.freed(process, device, kind, record.bytes);
}

// The table did not have the allocation. If a live allocation at the address is known to be missing
// from the table, it is the one.
void MemoryAccounting::apply_free_of_unknown(Process &process,
                                             const cuda_allocation_record &record) {
    const cuda_memory_kind kind = memory_kind_of(record.kind);
    const std::uint64_t began =
        record.head.ended_ns - std::min(record.head.ended_ns, record.head.duration_ns);
    const auto found = state_of<MemoryState>(process).live.find_not_in_kernel_table(
        MEMORY_HAS_HANDLE(kind), record.address,
        static_cast<std::int64_t>(std::min<std::uint64_t>(began, INT64_MAX)));
    if (!found) {
        return counters_.freed_unknown(process, device_of(process, record.head.device), kind);
    }
    const auto &[key, allocation] = *found;
    free(process, key, allocation, ended_at(record.head));
    // If it was missing from the table only for a moment, it is there now.
    const std::array entry = {live_entry(process, key)};
    forget_in_table(process, entry);
}

void MemoryAccounting::apply(Process &process, const cuda_mapping_record &record) {
    auto &state = state_of<MemoryState>(process);
    state.has_handles = true;
    const auto ended_ns = static_cast<std::int64_t>(record.head.ended_ns);
    if (record.head.type == CUDA_RECORD_MAP) {
        state.live.map(record.address, {record.bytes, ended_ns, record.is_host != 0});
    } else {
        const auto duration_ns = static_cast<std::int64_t>(record.head.duration_ns);
        for (const LiveAllocations::Key &key :
             state.live.unmap(record.address, record.bytes, ended_ns - duration_ns)) {
            if (watched_) {
                watched_->mappings.insert({process.key, key});
            }
        }
        state.has_unfinished_unmaps = state.has_unfinished_unmaps || record.is_unfinished != 0;
        want_reconciling(record.is_unfinished != 0);
    }
}

bool MemoryAccounting::was_reset(const Process &process, const Allocation &allocation) {
    if (MEMORY_HAS_HANDLE(allocation.kind)) {
        return false;
    }
    const auto &resets = state_of<MemoryState>(process).resets;
    const auto reset = resets.find(reset_key(allocation.context, allocation.device));
    return reset != resets.end() && allocation.born_ns <= reset->second;
}

void MemoryAccounting::apply(Process &process, const cuda_reset_record &record) {
    auto &state = state_of<MemoryState>(process);
    const ResetKey reset = reset_key(record.context, device_of(process, record.head.device));
    want_reconciling(state.resets.size() >= many_noted);
    if (state.resets.size() >= most_noted && !state.resets.contains(reset)) {
        state.resets.erase(std::prev(state.resets.end()));
        forgotten_++;
    }
    state.resets[reset] = ended_at(record.head).count();
    std::vector<std::pair<LiveAllocations::Key, Allocation>> gone;
    std::ranges::copy_if(state.live.live(), std::back_inserter(gone),
                         [&](const auto &entry) { return was_reset(process, entry.second); });
    std::vector<LiveEntry> entries;
    for (const auto &[key, allocation] : gone) {
        free(process, key, allocation, ended_at(record.head));
        entries.push_back(live_entry(process, key));
    }
    forget_in_table(process, entries);
}

}  // namespace gpusnoop::probes
