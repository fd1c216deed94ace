#include "exporter/probes/cuda/memory/reconcile.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/memory/state.h"

namespace gpusnoop::probes {

namespace {

// The mappings of one process in the kernel's table of live allocations. Some of them ended by a
// cuMemUnmap that left the rest of its range to the exporter.
class Unmapped {
public:
    // `entries`: the indexes of the process's entries in the table.
    Unmapped(const LiveTable &table, std::span<const std::size_t> entries);

    struct Mapping {
        std::uint64_t bytes = 0;
        std::uint64_t born_ns = 0;
        std::pair<std::uint64_t, std::uint64_t> handle;  // and when it was born
        bool is_host = false;
    };
    using Mappings = std::map<std::uint64_t, Mapping>;  // by address

    // Mappings that still lead to memory.
    [[nodiscard]] const Mappings &live() const { return live_; }
    // Mappings that have ended, but whose handles still count them.
    [[nodiscard]] const std::vector<LiveEntry> &ended() const { return ended_; }
    // Entries that the table can lose, once these mappings have been ended.
    [[nodiscard]] const std::vector<LiveEntry> &done() const { return done_; }
    // There are more ranges: read the table again.
    [[nodiscard]] bool has_more() const { return has_more_; }
    // Was the last use of this entry a mapping that has ended?
    [[nodiscard]] bool was_last_use(const cuda_live_key &key, const cuda_live &live) const;

private:
    void end_in(const cuda_live &range, const cuda_live_key &key);

    Mappings live_;
    std::vector<LiveEntry> ended_;
    std::vector<LiveEntry> done_;
    // The ended mappings of each handle and its birth: handles are reused.
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> given_up_;
    bool has_more_ = false;
};

// A process could make any number of ranges that have the same mappings in them.
constexpr std::size_t max_ranges = 256;

Unmapped::Unmapped(const LiveTable &table, std::span<const std::size_t> entries) {
    std::vector<std::size_t> ranges;
    for (const std::size_t i : entries) {
        const auto &[key, live] = table.entries[i];
        if (key.space == CUDA_LIVE_UNMAPS) {
            ranges.push_back(i);
        } else if (key.space == CUDA_LIVE_MAPPINGS && live.uses == 0) {
            live_[key.address] = {
                live.bytes, live.born_ns, {live.context, live.caller}, MEMORY_IS_HOST(live.kind)};
        } else if (key.space == CUDA_LIVE_MAPPINGS) {
            done_.push_back({key, live.born_ns});  // ended by us, but not removed yet
        }
    }
    has_more_ = ranges.size() > max_ranges;
    for (std::size_t i = 0; i < ranges.size() && i < max_ranges; i++) {
        const auto &[key, live] = table.entries[ranges[i]];
        end_in(live, key);
        done_.push_back({key, live.born_ns});
    }
}

void Unmapped::end_in(const cuda_live &range, const cuda_live_key &key) {
    auto mapping = live_.lower_bound(range.context);
    while (mapping != live_.end() && mapping->first < range.caller) {
        const auto &[address, what] = *mapping;
        if (what.born_ns > range.born_ns) {
            ++mapping;  // made since
            continue;
        }
        const LiveEntry entry{{address, key.since_ns, key.tgid, CUDA_LIVE_MAPPINGS}, what.born_ns};
        ended_.push_back(entry);
        done_.push_back(entry);
        given_up_[what.handle]++;
        mapping = live_.erase(mapping);
    }
}

bool Unmapped::was_last_use(const cuda_live_key &key, const cuda_live &live) const {
    const auto found = given_up_.find({key.address, live.born_ns});
    return key.space == CUDA_LIVE_HANDLES && found != given_up_.end() &&
           live.uses == found->second * CUDA_ONE_MAPPING;
}

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

namespace {

using std::chrono::nanoseconds;

// A multiple of the last read's CPU time. While records are being lost, the live allocations soon
// become wrong again; after the last loss, one read corrects them.
constexpr int pause = 20;
constexpr int pause_at_rest = 2;
constexpr nanoseconds rest = std::chrono::milliseconds(200);

}  // namespace

bool ReconcileSchedule::is_due(nanoseconds now, std::uint64_t lost, bool wanted) {
    if (std::exchange(lost_, lost) != lost) {
        changed_ = now;
    }
    if (reconciled_ == lost && !wanted) {
        return false;
    }
    const bool is_at_rest = reconciled_ != lost && now - changed_ >= rest;
    return now - read_ >= (is_at_rest || !reconciled_ ? pause_at_rest : pause) * cost_;
}

void ReconcileSchedule::read(nanoseconds now, nanoseconds cpu) {
    read_ = now;
    cost_ = cpu;
}

}  // namespace gpusnoop::probes
