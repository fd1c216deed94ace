// The part of the CUDA aggregator that makes its books agree with the kernel's table of live
// allocations, which is right whatever became of the records about it.
#include <algorithm>

#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/memory/unmapped.h"

namespace gpusnoop::probes {

namespace {

// An allocation is born a moment before it is in the table.
constexpr std::chrono::nanoseconds max_entering_time = std::chrono::milliseconds(100);

// A process is in its table a moment after the time by which it is known.
constexpr std::chrono::nanoseconds max_starting_time = std::chrono::seconds(10);

// A free under way has left the table, and its record comes when it ends. Its memory is all that
// this bounds: of what is past it, a free that was under way is counted twice.
constexpr std::size_t max_presumed_freed = 65'536;

AllocationBook::Key key_of(const cuda_live_key &key, const cuda_live &live) {
    return {key.space == CUDA_LIVE_HANDLES, key.address, static_cast<std::int64_t>(live.born_ns)};
}

Allocation allocation_of(const cuda_live &live, std::int32_t device) {
    return {.bytes = live.bytes,
            .born_ns = static_cast<std::int64_t>(live.born_ns),
            .context = live.context,
            .site = {live.stack, live.caller},
            .device = device,
            .kind = live.kind < MEMORY_KIND_COUNT ? static_cast<cuda_memory_kind>(live.kind)
                                                  : MEMORY_device};
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

cuda_live_process state_of(const LiveTable &table, const ProcessKey &key) {
    if (const auto ended = table.ended.find(key); ended != table.ended.end()) {
        return ended->second;
    }
    const auto running = table.processes.find(key.tgid);
    return running != table.processes.end() && running->second.since_ns == key.since_ns
               ? running->second
               : cuda_live_process{};
}

}  // namespace

void CudaAggregator::watch_frees() {
    watches_frees_ = true;
    watched_frees_.clear();
}

// Processes whose end we have not heard of are not in the kernel's table of processes any more.
// That is enough to know it, but the entries may be older: only the next table says what was left.
void CudaAggregator::note_ended(const LiveTable &table) {
    for (const auto &[key, state] : table.ended) {
        cuda_record head{};
        head.function = CUDA_NO_FUNCTION;
        head.tgid = key.tgid;
        head.since_ns = key.since_ns;
        end(process_of(head), std::chrono::nanoseconds(state.ended_ns), true);
    }
    processes_.for_each([&](Process &process) {
        const ProcessKey &key = process.key;
        const auto found = table.processes.find(key.tgid);
        const bool runs = found != table.processes.end() && found->second.since_ns == key.since_ns;
        const bool was_there =
            key.since_ns < static_cast<std::uint64_t>((table.since - max_starting_time).count());
        if (!process.ended && was_there && !runs) {
            end(process, table.since, true);
        }
    });
}

// Those whose books can be compared with the table.
CudaAggregator::EntriesByProcess CudaAggregator::processes_in(const LiveTable &table) {
    EntriesByProcess by_process;
    for (const auto &[tgid, process] : table.processes) {
        cuda_record head{};
        head.function = CUDA_NO_FUNCTION;
        head.tgid = tgid;
        head.since_ns = process.since_ns;
        if (const Process &one = process_of(head); !one.ended) {
            by_process.try_emplace(one.key);
        }
    }
    processes_.for_each([&](const Process &process) {
        if (process.awaits_table && *process.ended < table.since) {
            by_process.try_emplace(process.key);
        } else if (process.awaits_table) {
            wants_reconciling_ = true;
        }
    });
    return by_process;
}

void CudaAggregator::reconcile(const LiveTable &table) {
    wants_reconciling_ = false;
    note_ended(table);
    EntriesByProcess by_process = processes_in(table);
    std::vector<LiveEntry> left_behind;
    for (std::size_t i = 0; i < table.entries.size(); i++) {
        const auto &[key, live] = table.entries[i];
        const ProcessKey of{key.tgid, key.since_ns};
        const auto compared = by_process.find(of);
        const Process *const known = processes_.find(of);
        if (compared != by_process.end()) {
            compared->second.push_back(i);
        }
        const bool is_kept =
            known != nullptr && known->awaits_table && compared == by_process.end();
        const bool is_of_ended = known == nullptr || known->ended;
        if (is_of_ended && !is_kept) {
            left_behind.push_back({key, live.born_ns});
        }
    }
    for (const auto &[key, entries] : by_process) {
        Process &process = processes_.of(key);
        compare(process, table, entries);
        if (process.awaits_table) {
            process.has_handles = false;  // all that the table has of it is left behind
            count_unfreed(process);
        }
    }
    for (const auto &[key, state] : table.ended) {
        const Process *const known = processes_.find(key);
        if (known == nullptr || !known->awaits_table) {
            left_behind.push_back({{0, key.since_ns, key.tgid, CUDA_LIVE_ENDED}, state.ended_ns});
        }
    }
    (void)surroundings_.forget_live(left_behind);
    watches_frees_ = false;
    watched_frees_.clear();
}

// What is in the table and not in the book was allocated and its record lost, unless it was freed
// after the table was read. What is in the book and not in the table was freed and its record lost,
// unless it was allocated after.
void CudaAggregator::compare(Process &process, const LiveTable &table,
                             const std::vector<std::size_t> &entries) {
    const cuda_live_process known = state_of(table, process.key);
    const Unmapped unmapped(table, entries);
    AllocationKeys present;
    std::vector<LiveEntry> reset;
    for (const auto &[address, mapping] : unmapped.live()) {
        process.has_handles = true;
        process.book.map(address, mapping.bytes);
    }
    for (const std::size_t i : entries) {
        const auto &[key, live] = table.entries[i];
        if (!is_allocation(key) || live.imported != 0) {
            continue;
        }
        const Allocation allocation = allocation_of(live, device_of(process, live.device));
        if (was_reset(table, known, key, live) || is_gone(process, allocation)) {
            reset.push_back({key, live.born_ns});
            continue;
        }
        take_missing(process, key_of(key, live), allocation);
        // What an ended process has given up by unmapping is not taken from its entries any more.
        if (!process.ended || !unmapped.was_last_use(key, live)) {
            present.insert(key_of(key, live));
        }
    }
    forget_live(process, reset);
    free_absent(process, table, present);
    forget_compared(process, table);
    if (!process.ended) {
        surroundings_.end_mappings(unmapped.ended());
        (void)surroundings_.forget_live(unmapped.done());
        wants_reconciling_ = wants_reconciling_ || unmapped.has_more();
    }
}

// What was noted of older times has been compared with all that the table has of them.
void CudaAggregator::forget_compared(Process &process, const LiveTable &table) {
    const std::int64_t until = (table.since - max_entering_time).count();
    std::erase_if(process.resets, [&](const auto &reset) { return reset.second < until; });
    std::erase_if(process.displaced, [&](const auto &key) { return key.born_ns < until; });
}

void CudaAggregator::free_absent(Process &process, const LiveTable &table,
                                 const AllocationKeys &present) {
    std::vector<std::pair<AllocationBook::Key, Allocation>> gone;
    for (const auto &[key, allocation] : process.book.live()) {
        if (allocation.untabled || key.born_ns >= table.since.count() || present.contains(key)) {
            continue;
        }
        if (!process.ended && key.born_ns > (table.since - max_entering_time).count()) {
            wants_reconciling_ = true;  // the next table tells
        } else {
            gone.emplace_back(key, allocation);
        }
    }
    if (process.presumed_freed.size() + gone.size() > max_presumed_freed) {
        process.presumed_freed.clear();
    }
    for (const auto &[key, allocation] : gone) {
        process.book.free(key);
        count_free(process, allocation.device, allocation.kind, allocation.bytes);
        if (process.presumed_freed.size() < max_presumed_freed) {
            process.presumed_freed.insert(key);
        }
    }
}

void CudaAggregator::take_missing(Process &process, const AllocationBook::Key &key,
                                  const Allocation &allocation) {
    if (watched_frees_.contains({process.key, key})) {
        return;
    }
    if (enter_allocation(process, key.address, allocation) &&
        allocation.born_ns >= settings_.started.count()) {
        count_allocation(process, allocation.device, allocation.kind, allocation.bytes);
    }
}

// The tables keep what an ended process had: nobody else takes it out.
void CudaAggregator::drop_from_tables(Process &process) {
    std::vector<LiveEntry> entries;
    for (const auto &[key, allocation] : process.book.live()) {
        entries.push_back({{key.address, process.key.since_ns, process.key.tgid,
                            key.is_handle ? CUDA_LIVE_HANDLES : CUDA_LIVE_MEMORY},
                           static_cast<std::uint64_t>(key.born_ns)});
    }
    (void)surroundings_.forget_live(entries);
    // Mappings and handles from other processes are in no book.
    wants_reconciling_ = wants_reconciling_ || process.has_handles;
    for (const std::int32_t stack : process.stacks) {
        const auto users = stack_users_.find(stack);
        if (users != stack_users_.end() && --users->second == 0) {
            stack_users_.erase(users);
            surroundings_.forget_stack(stack);
        }
    }
}

}  // namespace gpusnoop::probes
