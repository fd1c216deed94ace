// The part of the CUDA aggregator that makes its books agree with the kernel's table of live
// allocations, which is right whatever became of the records about it.
#include <algorithm>
#include <unordered_set>

#include "exporter/probes/cuda_aggregator.h"

namespace gpusnoop::probes {

namespace {

// An allocation is born a moment before it is in the table.
constexpr std::chrono::nanoseconds max_entering_time = std::chrono::milliseconds(100);

// A free under way has left the table, and its record comes when it ends. Its memory is all that
// this bounds: of what is past it, a free that was under way is counted twice.
constexpr std::size_t max_presumed_freed = 65'536;

struct KeyHash {
    std::size_t operator()(const AllocationBook::Key &key) const {
        return (key.address ^ (static_cast<std::uint64_t>(key.born_ns) * 0x9e3779b97f4a7c15)) +
               (key.is_handle ? 1 : 0);
    }
};

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
    if (live.context != 0) {
        const auto destroyed = table.destroyed_ns.find({{key.tgid, key.since_ns}, live.context});
        return destroyed != table.destroyed_ns.end() && live.born_ns <= destroyed->second;
    }
    if (live.device >= CUDA_MAX_DEVICES || live.device < CUDA_DEVICE_UNCHOSEN) {
        return false;
    }
    return live.born_ns <= process.reset_ns[std::max(live.device, 0)];
}

}  // namespace

void CudaAggregator::watch_frees() {
    watches_frees_ = true;
    watched_frees_.clear();
}

void CudaAggregator::reconcile(const LiveTable &table) {
    wants_reconciling_ = false;
    std::unordered_map<ProcessKey, std::vector<std::size_t>, ProcessKeyHash> by_process;
    for (const auto &[tgid, process] : table.processes) {
        cuda_record head{};
        head.function = CUDA_NO_FUNCTION;
        head.tgid = tgid;
        head.since_ns = process.since_ns;
        if (const Process &one = process_of(head); !one.ended) {
            by_process.try_emplace(one.key);
        }
    }
    std::vector<LiveEntry> left_behind;
    for (std::size_t i = 0; i < table.entries.size(); i++) {
        const cuda_live_key &key = table.entries[i].first;
        const auto process = by_process.find({key.tgid, key.since_ns});
        if (process != by_process.end()) {
            process->second.push_back(i);
        } else {
            left_behind.push_back({key, table.entries[i].second.born_ns});
        }
    }
    (void)surroundings_.forget_live(left_behind);
    for (const auto &[key, entries] : by_process) {
        compare(*processes_.at(key), table, entries);
    }
    watches_frees_ = false;
    watched_frees_.clear();
}

// What is in the table and not in the book was allocated and its record lost, unless it was freed
// after the table was read. What is in the book and not in the table was freed and its record lost,
// unless it was allocated after.
void CudaAggregator::compare(Process &process, const LiveTable &table,
                             const std::vector<std::size_t> &entries) {
    const cuda_live_process &known = table.processes.at(process.key.tgid);
    std::unordered_set<AllocationBook::Key, KeyHash> present;
    std::vector<LiveEntry> reset;
    for (const std::size_t i : entries) {
        const auto &[key, live] = table.entries[i];
        if (key.space == CUDA_LIVE_MAPPINGS) {
            process.has_handles = true;
            process.book.map(key.address, live.bytes);
        } else if (live.imported == 0) {
            const Allocation allocation = allocation_of(live, device_of(process, live.device));
            if (was_reset(table, known, key, live) || is_gone(process, allocation)) {
                reset.push_back({key, live.born_ns});
            } else {
                present.insert(key_of(key, live));
                take_missing(process, key_of(key, live), allocation);
            }
        }
    }
    forget_live(process, reset);
    std::vector<std::pair<AllocationBook::Key, Allocation>> gone;
    for (const auto &[key, allocation] : process.book.live()) {
        if (allocation.untabled || key.born_ns >= table.since.count() || present.contains(key)) {
            continue;
        }
        if (key.born_ns > (table.since - max_entering_time).count()) {
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
void CudaAggregator::drop_from_tables(const Process &process) {
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
