#include "exporter/probes/cuda/memory/reconcile.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "exporter/probes/cuda/memory/state.h"
#include "exporter/probes/cuda/memory/unmapped.h"

namespace gpusnoop::probes {

namespace {

// An allocation is born a moment before it is in the table.
constexpr std::chrono::nanoseconds max_entering_time = std::chrono::milliseconds(100);

// A free under way has already left the table, and its record comes when it ends. This bounds only
// the memory for such frees: over the limit, they are counted twice.
constexpr std::size_t max_assumed_freed = 65'536;

LiveAllocations::Key key_of(const cuda_live_key &key, const cuda_live &live) {
    return {key.space == CUDA_LIVE_HANDLES, key.address, static_cast<std::int64_t>(live.born_ns)};
}

Allocation allocation_of(const cuda_live &live, std::int32_t device) {
    return {.bytes = live.bytes,
            .born_ns = static_cast<std::int64_t>(live.born_ns),
            .context = live.context,
            .site = {live.stack, live.caller, live.python},
            .device = device,
            .kind = memory_kind_of(live.kind)};
}

// Was it in a context that has been reset or destroyed since?
bool was_reset(const LiveTable &table, const cuda_live_process &process, const cuda_live_key &key,
               const cuda_live &live) {
    if (key.space != CUDA_LIVE_MEMORY) {
        return false;
    }
    if (live.context == 0 && live.device < CUDA_DEVICE_UNCHOSEN) {
        return false;
    }
    const auto device = static_cast<std::uint32_t>(std::max(live.device, 0));
    if (live.context == 0 && device < CUDA_MAX_DEVICES) {
        return live.born_ns <= process.reset_ns[device];
    }
    const auto destroyed = table.destroyed_ns.find(
        {{key.tgid, key.since_ns}, live.context != 0 ? live.context : device});
    return destroyed != table.destroyed_ns.end() && live.born_ns <= destroyed->second;
}

bool is_allocation(const cuda_live_key &key) {
    return key.space == CUDA_LIVE_MEMORY || key.space == CUDA_LIVE_HANDLES;
}

cuda_live_process process_in(const LiveTable &table, const ProcessKey &key) {
    if (const auto ended = table.ended.find(key); ended != table.ended.end()) {
        return ended->second;
    }
    return table.has_running(key) ? table.processes.at(key.tgid) : cuda_live_process{};
}

// Forgets older notes, which have been compared with the table.
void forget_compared(MemoryState &state, const LiveTable &table) {
    const std::int64_t until = (table.since - max_entering_time).count();
    std::erase_if(state.resets, [&](const auto &reset) { return reset.second < until; });
    std::erase_if(state.briefly_missing, [&](const auto &key) { return key.born_ns < until; });
}

}  // namespace

Reconciler::EntriesByProcess Reconciler::comparable_processes(const LiveTable &table) {
    EntriesByProcess by_process;
    processes_.for_each([&](const Process &process) {
        const bool awaits_table = state_of<MemoryState>(process).awaits_table;
        if (process.ended ? awaits_table && *process.ended < table.since
                          : table.has_running(process.key)) {
            by_process.try_emplace(process.key);
        } else if (awaits_table) {
            memory_.want_reconciling();  // its last entries may be older than the table
        }
    });
    return by_process;
}

std::vector<LiveEntry> Reconciler::sort_entries(const LiveTable &table,
                                                EntriesByProcess &by_process) const {
    std::vector<LiveEntry> left_behind;
    for (std::size_t i = 0; i < table.entries.size(); i++) {
        const auto &[key, live] = table.entries[i];
        const ProcessKey of{key.tgid, key.since_ns};
        if (const auto compared = by_process.find(of); compared != by_process.end()) {
            compared->second.push_back(i);
        }
        const Process *const known = processes_.find(of);
        const bool is_kept = known != nullptr && state_of<MemoryState>(*known).awaits_table &&
                             !by_process.contains(of);
        const bool is_of_ended = known == nullptr || known->ended;
        if (is_of_ended && !is_kept) {
            left_behind.push_back({key, live.born_ns});
        }
    }
    return left_behind;
}

void Reconciler::reconcile(const LiveTable &table) {
    EntriesByProcess by_process = comparable_processes(table);
    std::vector<LiveEntry> left_behind = sort_entries(table, by_process);
    for (const auto &[key, entries] : by_process) {
        Process &process = *processes_.find(key);
        compare(process, table, entries);
        if (auto &state = state_of<MemoryState>(process); state.awaits_table) {
            state.has_handles = false;  // all its entries of the table are left behind
            memory_.count_unfreed(process);
        }
    }
    for (const auto &[key, ended] : table.ended) {
        const Process *const known = processes_.find(key);
        if (known == nullptr || !state_of<MemoryState>(*known).awaits_table) {
            left_behind.push_back({{0, key.since_ns, key.tgid, CUDA_LIVE_ENDED}, ended.ended_ns});
        }
    }
    (void)callbacks_.forget_live(left_behind);
    memory_.stop_watching_ends();
}

// An allocation in the table but not among the live ones: the record of the allocation was lost,
// unless it was freed after the table was read. A live allocation that is not in the table: the
// record of the free was lost, unless it was allocated after.
void Reconciler::compare(Process &process, const LiveTable &table,
                         const std::vector<std::size_t> &entries) {
    auto &state = state_of<MemoryState>(process);
    const cuda_live_process known = process_in(table, process.key);
    if (known.lost_allocations > 0) {
        MemoryAccounting::note_losses(process);
    }
    const Unmapped unmapped(table, entries);
    AllocationKeys present;
    std::vector<LiveEntry> reset;
    for (const auto &[address, mapping] : unmapped.live()) {
        memory_.map_from_table(
            process, address,
            {mapping.bytes, static_cast<std::int64_t>(mapping.born_ns), mapping.is_host});
    }
    for (const std::size_t i : entries) {
        const auto &[key, live] = table.entries[i];
        if (!is_allocation(key) || live.imported != 0) {
            continue;
        }
        const Allocation allocation = allocation_of(live, device_of(process, live.device));
        if (was_reset(table, known, key, live) ||
            MemoryAccounting::was_reset(process, allocation)) {
            reset.push_back({key, live.born_ns});
            continue;
        }
        memory_.add_from_table(process, key_of(key, live), allocation);
        // For an ended process, no unmapping is removed from the uses in its entries any more.
        if (!process.ended || !unmapped.was_last_use(key, live)) {
            present.insert(key_of(key, live));
        }
    }
    memory_.forget_in_table(process, reset);
    free_absent(process, table, present);
    forget_compared(state, table);
    if (!process.ended) {
        callbacks_.end_mappings(unmapped.ended());
        (void)callbacks_.forget_live(unmapped.done());
        memory_.want_reconciling(unmapped.has_more());
    }
}

void Reconciler::free_absent(Process &process, const LiveTable &table,
                             const AllocationKeys &present) {
    auto &state = state_of<MemoryState>(process);
    std::vector<std::pair<LiveAllocations::Key, Allocation>> gone;
    for (const auto &[key, allocation] : state.live.live()) {
        if (allocation.never_in_kernel_table || key.born_ns >= table.since.count() ||
            present.contains(key)) {
            continue;
        }
        if (!process.ended && key.born_ns > (table.since - max_entering_time).count()) {
            memory_.want_reconciling();  // the next table decides
        } else {
            gone.emplace_back(key, allocation);
        }
    }
    if (state.assumed_freed.size() + gone.size() > max_assumed_freed) {
        state.assumed_freed.clear();
    }
    for (const auto &[key, allocation] : gone) {
        memory_.free(process, key, allocation, table.since);
        if (state.assumed_freed.size() < max_assumed_freed) {
            state.assumed_freed.insert(key);
        }
    }
}

}  // namespace gpusnoop::probes
