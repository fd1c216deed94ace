// The part of the CUDA aggregator that follows processes, from their first call until nothing of
// them is left on the page.
#include <algorithm>
#include <utility>

#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/functions.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// How long launches wait for the name of their kernel.
constexpr std::chrono::seconds max_naming_time{10};

// A table that cannot be read does not keep the ended for ever.
constexpr std::chrono::minutes max_waiting_for_table{10};

}  // namespace

void CudaAggregator::on_process(const cuda_process_record &record) {
    const ProcessKey key{record.head.tgid, record.head.since_ns};
    if (Process *const process = processes_.start(key, record.identity)) {
        process->executable = {key.tgid,
                               {record.exe_inode, record.exe_device, record.exe_generation, 0},
                               record.exe_bytes,
                               record.code_start,
                               record.code_end};
        surroundings_.remember_executable(process->executable);
    }
}

// Its record comes before the first call's. Should it be late or lost, the calls are counted all
// the same, for a process without a name.
Process &CudaAggregator::process_of(const cuda_record &head) {
    const ProcessKey key{head.tgid, head.since_ns};
    if (!processes_.contains(key)) {
        surroundings_.catch_up();
    }
    Process &process = processes_.of(key);
    note_linkage(process, head.function);
    return process;
}

// By what it has called; a shared runtime outweighs what libraries bring along linked into them.
void CudaAggregator::note_linkage(Process &process, std::uint16_t function) {
    if (process.linkage == Linkage::shared || function == CUDA_NO_FUNCTION) {
        return;
    }
    const std::size_t number = function & ~CUDA_STATIC_RUNTIME;
    const bool is_driver = number < cuda_functions().size() && cuda_functions()[number].is_driver;
    const Linkage now = is_driver                               ? Linkage::driver_only
                        : (function & CUDA_STATIC_RUNTIME) != 0 ? Linkage::statically
                                                                : Linkage::shared;
    process.linkage = std::min(process.linkage, now);
}

series::LabelValues CudaAggregator::labels(const Process &process,
                                           std::initializer_list<std::string_view> own) const {
    series::LabelValues values = process.labels;
    values.insert(values.end(), own.begin(), own.end());
    return values;
}

// `awaits_table`: of its memory records may be missing, so that what it had allocated at its end is
// counted when a table has been read that is younger.
void CudaAggregator::end(Process &process, nanoseconds at, bool awaits_table) {
    if (process.ended) {
        return;
    }
    process.ended = at;
    if (awaits_table) {
        process.awaits_table = true;
        wants_reconciling_ = true;
    } else {
        count_unfreed(process);
    }
}

void CudaAggregator::count_unfreed(Process &process) {
    if (std::exchange(process.awaits_table, false)) {
        // The retention begins with what is counted last.
        process.ended = std::max(*process.ended, now_);
    }
    std::map<std::string, Amount> unfreed;
    // Also when it is 0: a counter that appears with its first leak has no increase to alert on.
    unfreed[gpu_of(process, device_of(process, CUDA_DEVICE_UNCHOSEN))];
    for (const auto &[part, amount] : process.book.parts()) {
        Amount &sum = unfreed[gpu_of(process, part.first)];
        sum.bytes += amount.bytes;
        sum.count += amount.count;
    }
    for (const auto &[gpu, amount] : unfreed) {
        const auto values = labels(process, {gpu});
        families_.unfreed_bytes.add(families_.unfreed_bytes.slot(process.owner, values),
                                    amount.bytes);
        families_.unfreed_allocations.add(families_.unfreed_allocations.slot(process.owner, values),
                                          amount.count);
    }
    drop_from_tables(process);
    process.book = AllocationBook(&memory_);
}

// The record of its end was lost, so others may be.
void CudaAggregator::assume_ended(const ProcessKey &key, nanoseconds now) {
    if (Process *const process = processes_.find(key)) {
        end(*process, now, true);
    }
}

void CudaAggregator::scan(nanoseconds now) {
    for (const ProcessKey &key : processes_.find_ended()) {
        assume_ended(key, now);
    }
}

// Kernels whose name takes too long are counted as unknown. True: some still have time.
bool CudaAggregator::give_up_naming(Process &process) {
    bool waiting = false;
    bool gave_up = false;
    for (auto kernel = process.kernels.begin(); kernel != process.kernels.end(); ++kernel) {
        if (kernel->second.name || !kernel->second.asked) {
            continue;
        }
        if (now_ - *kernel->second.asked < max_naming_time) {
            waiting = true;
        } else {
            kernel.value().name = "";
            gave_up = true;
        }
    }
    if (gave_up) {
        count_waiting(process);
    }
    return waiting;
}

void CudaAggregator::tidy(nanoseconds now) {
    now_ = now;
    count_named();  // before a process leaves
    processes_.forget_if([&](Process &process) {
        const bool waiting = give_up_naming(process);
        if (process.awaits_table && now - *process.ended > max_waiting_for_table) {
            count_unfreed(process);
        }
        return process.ended && !process.awaits_table && !waiting;
    });
    // A burst leaves room for megabytes of events.
    if (pending_.capacity() > 1'024 && pending_.size() < pending_.capacity() / 8) {
        pending_.shrink_to_fit();
    }
    families_.launches.rebalance();
    (void)processes_.expire(now);
}

}  // namespace gpusnoop::probes
