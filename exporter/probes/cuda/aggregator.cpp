#include "exporter/probes/cuda/aggregator.h"

#include <algorithm>

#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/cuda/copies/copies.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/cuda/totals.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

std::optional<cuda_record> head_of(std::span<const std::byte> bytes) {
    return ebpf::decode<cuda_record>(bytes.first(std::min(bytes.size(), sizeof(cuda_record))));
}

std::uint32_t type_of(std::span<const std::byte> bytes) {
    const auto head = head_of(bytes);
    return head ? head->type : ~0U;
}

bool began_before(const Process &process, nanoseconds moment) {
    return process.key.since_ns < static_cast<std::uint64_t>(moment.count());
}

}  // namespace

CudaAggregator::CudaAggregator(CudaSettings settings, CudaCallbacks callbacks)
    : settings_(std::move(settings)),
      callbacks_(std::move(callbacks)),
      families_(settings_.budget, settings_.pid_label),
      processes_(families_,
                 {.budget = settings_.budget,
                  .pid_label = settings_.pid_label,
                  .script_label = settings_.script_label,
                  .retention = settings_.retention},
                 callbacks_,
                 [this](Process &process) {
                     process.lost_before = callbacks_.lost_records();
                     parts_.started(process);
                 }),
      parts_(families_, processes_, settings_.gpus, settings_.started, callbacks_),
      overhead_(make_overhead_family(families_), "cuda", callbacks_.overhead),
      reconciler_(parts_.memory, processes_.table(), callbacks_) {}

// ---- from the rings ----

// False: the bytes are not such a record.
template <typename Part, typename Record>
bool CudaAggregator::hand_to(Part &part, void (Part::*take)(Process &, const Record &),
                             std::span<const std::byte> bytes) {
    const auto record = ebpf::decode<Record>(bytes);
    if (record) {
        (part.*take)(processes_.of(record->head), *record);
    }
    return record.has_value();
}

template <typename Record>
bool CudaAggregator::keep(std::span<const std::byte> bytes) {
    const auto record = ebpf::decode<Record>(bytes);
    if (record) {
        pending_.add(*record);
    }
    return record.has_value();
}

bool CudaAggregator::take_allocations_record(std::span<const std::byte> bytes) {
    switch (type_of(bytes)) {
        case CUDA_RECORD_PROCESS:
            return processes_.on_record(bytes);
        case CUDA_RECORD_EXIT:
            return keep<cuda_exit_record>(bytes);
        case CUDA_RECORD_ALLOCATE:
        case CUDA_RECORD_FREE:
            return keep<cuda_allocation_record>(bytes);
        case CUDA_RECORD_MAP:
        case CUDA_RECORD_UNMAP:
            return keep<cuda_mapping_record>(bytes);
        case CUDA_RECORD_RESET:
            return keep<cuda_reset_record>(bytes);
        case CUDA_RECORD_KERNEL:
            return hand_to(parts_.launches, &CudaLaunches::on_kernel, bytes);
        case CUDA_RECORD_NAME:
            return hand_to(parts_.launches, &CudaLaunches::on_name, bytes);
        case CUDA_RECORD_CAPTURED:
        case CUDA_RECORD_CHANGE:
            return take_change(bytes);
        case CUDA_RECORD_FAILED:
            return take_failed(bytes);
        case CUDA_RECORD_REPAIRED:
            return keep<cuda_repaired_record>(bytes);
        default:
            return false;
    }
}

bool CudaAggregator::take_calls_record(std::span<const std::byte> bytes) {
    if (!count_call(bytes)) {
        return false;
    }
    const cuda_record head = *head_of(bytes);
    if (Process *const process = processes_.table().find({head.tgid, head.since_ns})) {
        if (head.type == CUDA_RECORD_COPY) {
            CudaIdleHeld::on_copy(*process, *ebpf::decode<cuda_copy_record>(bytes));
        } else {
            CudaIdleHeld::on_call(*process, head);
        }
    }
    return true;
}

bool CudaAggregator::count_call(std::span<const std::byte> bytes) {
    switch (type_of(bytes)) {
        case CUDA_RECORD_LAUNCH:
            return hand_to(parts_.launches, &CudaLaunches::on_launch, bytes);
        case CUDA_RECORD_COPY:
            return take_copy(bytes);
        case CUDA_RECORD_BATCH:
            return take_batch(bytes);
        case CUDA_RECORD_SET:
            return hand_to(parts_.copies, &CudaCopies::on_set, bytes);
        case CUDA_RECORD_GRAPH:
            return keep<cuda_graph_record>(bytes);
        case CUDA_RECORD_WAIT:
            return hand_to(parts_.copies, &CudaCopies::on_wait, bytes);
        case CUDA_RECORD_ELAPSED:
            return hand_to(parts_.events, &CudaEvents::on_elapsed, bytes);
        case CUDA_RECORD_FREE_MEMORY:
            return keep<cuda_free_memory_record>(bytes);
        case CUDA_RECORD_FAILED:
            return take_failed(bytes);
        case CUDA_RECORD_UNRETURNED:
            return take_unreturned_call(bytes);
        default:
            return false;
    }
}

// A process's own record is written before its launches are counted.
bool CudaAggregator::on_counted_launches(const cuda_launch_key &key,
                                         const cuda_launch_count &count) {
    Process *const process = processes_.table().find({key.tgid, key.since_ns});
    if (process != nullptr) {
        if (parts_.launches.on_counted(*process, key, count) > 0) {
            CudaIdleHeld::on_counted(*process, key.device);
        }
    }
    return process != nullptr;
}

bool CudaAggregator::take_copy(std::span<const std::byte> bytes) {
    const auto record = ebpf::decode<cuda_copy_record>(bytes);
    if (record && !parts_.copies.on_copy(processes_.of(record->head), *record)) {
        pending_.add(*record);
    }
    return record.has_value();
}

bool CudaAggregator::take_batch(std::span<const std::byte> bytes) {
    const auto record = ebpf::decode<cuda_batch_record>(bytes);
    if (record) {
        Process &process = processes_.of(record->head);
        for (const cuda_copy_record &copy : copies_of(*record)) {
            if (!parts_.copies.on_copy(process, copy)) {
                pending_.add(copy);
            }
        }
    }
    return record.has_value();
}

bool CudaAggregator::take_failed(std::span<const std::byte> bytes) {
    const auto record = ebpf::decode<cuda_failed_record>(bytes);
    if (record && CudaErrors::shows(record->head)) {
        parts_.errors.count(processes_.of(record->head), record->head);
    }
    if (record && record->head.result == CUDA_OUT_OF_MEMORY) {
        pending_.add(*record);
    }
    return record.has_value();
}

// A capture can end with an error.
bool CudaAggregator::take_change(std::span<const std::byte> bytes) {
    const auto record = ebpf::decode<cuda_change_record>(bytes);
    if (record && record->head.result != 0) {
        parts_.errors.count(processes_.of(record->head), record->head);
    }
    return record && keep<cuda_change_record>(bytes);
}

// ---- in the order of events ----

void CudaAggregator::apply_until(nanoseconds until) {
    parts_.launches.count_named();
    for (const OrderedEvent &event : pending_.take_until(until)) {
        std::visit([this](const auto &record) { apply(record); }, event);
    }
    parts_.out_of_memory.settle(until);
}

void CudaAggregator::on_torch(const TorchRefusal &refusal) {
    const Process *const running = processes_.running(refusal.pid);
    if (running != nullptr) {
        parts_.out_of_memory.on_torch(*processes_.table().find(running->key), refusal);
    }
}

void CudaAggregator::apply(const cuda_copy_record &record) {
    Process &process = processes_.of(record.head);
    parts_.copies.apply_default(process, record,
                                MemoryAccounting::is_on_device(process, record.destination),
                                MemoryAccounting::is_on_device(process, record.source));
}

void CudaAggregator::apply(const cuda_change_record &record) {
    Process &process = processes_.of(record.head);
    const std::size_t copy_kind =
        record.holds != CUDA_NODE_COPY
            ? 0
            : CudaCopies::kind_of(
                  process, record.detail.copy.kind,
                  MemoryAccounting::is_on_device(process, record.address),
                  MemoryAccounting::is_on_device(process, record.detail.copy.source));
    if (record.head.type == CUDA_RECORD_CAPTURED) {
        parts_.graphs.on_captured(process, record, copy_kind);
    } else {
        parts_.graphs.on_change(process, record, copy_kind);
    }
}

void CudaAggregator::apply(const cuda_graph_record &record) {
    Process &process = processes_.of(record.head);
    const GraphContent *const content = parts_.graphs.on_launch(process, record);
    if (content == nullptr) {
        return;
    }
    const std::uint64_t began_ns = record.head.ended_ns - record.head.duration_ns;
    for (const auto &[shape, launches] : content->launches()) {
        parts_.launches.add_by_graph(process, shape, launches, began_ns);
    }
    for (const auto &[copied, transfers] : content->copies()) {
        parts_.copies.add_by_graph(process, copied.first, copied.second, transfers.calls,
                                   transfers.bytes);
    }
    for (const auto &[device, transfers] : content->sets()) {
        parts_.copies.add_sets_by_graph(process, device, transfers.calls, transfers.bytes);
    }
}

void CudaAggregator::apply(const cuda_exit_record &record) {
    const ProcessKey key{record.head.tgid, record.head.since_ns};
    if (Process *const process = processes_.table().find(key)) {
        const bool is_older = began_before(*process, settings_.started);
        if (is_older) {
            leave_out_earlier_cost(*process, record.cost_ns);
        }
        overhead_.note_ended(*process, record.cost_ns, record.run_ns);
        parts_.launches.note_unseen(*process);
        // Only the kernel's table has the allocations from before this exporter.
        end(*process, ended_at(record.head), is_older || record.lost_allocations > 0);
    }
}

// With pins, the count of a process goes on, and an earlier exporter has shown what it was.
void CudaAggregator::leave_out_earlier_cost(Process &process, std::uint64_t cost_ns) {
    if (process.overhead.noted_ns == 0) {
        overhead_.leave_out(process, cost_ns);
    }
}

// `is_incomplete`: records of its memory may be missing.
void CudaAggregator::end(Process &process, nanoseconds at, bool is_incomplete) {
    if (!process.ended) {
        process.ended = at;
        any_ended_ = true;
        parts_.memory.ended(process, is_incomplete);
    }
}

// The record of its end was lost, so other records may be lost, too.
void CudaAggregator::assume_ended(const ProcessKey &key, nanoseconds now) {
    if (Process *const process = processes_.table().find(key)) {
        end(*process, now, true);
    }
}

void CudaAggregator::scan(nanoseconds now) {
    for (const ProcessKey &key : processes_.table().find_ended()) {
        assume_ended(key, now);
    }
}

void CudaAggregator::reconcile(const LiveTable &table) {
    parts_.memory.stop_wanting();
    for (const auto &[key, state] : table.ended) {
        end(processes_.of(key), nanoseconds(state.ended_ns), true);
    }
    // A process that is not in the table has ended, but the entries may be older: only the next
    // table has its remaining allocations.
    for (Process *const process : processes_.missing_in(table)) {
        end(*process, table.since, true);
    }
    for (const auto &[tgid, state] : table.processes) {
        (void)processes_.of(ProcessKey{tgid, state.since_ns});
    }
    reconciler_.reconcile(table);
}

void CudaAggregator::tidy(nanoseconds now) {
    parts_.tidy(now, settings_.retention);
    hand_over_totals(now);
    processes_.table().forget_if(
        [](const Process &process) { return process.ended && CudaParts::are_done_with(process); });
    pending_.release_room();
    (void)processes_.table().expire(now);
}

// Of those that have ended, and whose memory is counted. Names of kernels may still come.
void CudaAggregator::hand_over_totals(nanoseconds now) {
    const TotalsContext context{
        .held_by = [&](const JobOwner &owner) { return held_by(owner, now); },
        .lost_records = callbacks_.lost_records(),
        .started = settings_.started};
    processes_.table().for_each([&](Process &process) {
        if (process.ended && MemoryAccounting::is_done_with(process) &&
            !std::exchange(process.has_handed_over, true)) {
            callbacks_.process_done(totals_of(process, context));
        }
    });
}

void CudaAggregator::look_for_missed_calls() {
    processes_.table().for_each([this](Process &process) {
        if (!process.ended) {
            process.is_complete = callbacks_.has_all_calls(process);
        }
    });
}

// ---- the page ----

std::vector<series::FamilySnapshot> CudaAggregator::report(nanoseconds now) {
    processes_.table().for_each([this](Process &process) {
        if (!process.ended && began_before(process, settings_.started)) {
            leave_out_earlier_cost(process, callbacks_.cost_of(process.key));
        }
    });
    overhead_.note_running(processes_.table(), callbacks_.cost_of);
    processes_.table().for_each([this](Process &process) { parts_.launches.note_unseen(process); });
    series::FamilySet gauges(settings_.budget, true);
    add_memory_gauges(gauges, processes_.table(), parts_.memory.owners(), now, settings_.sites);
    CudaCopies::add_gauges(gauges, processes_.table(), settings_.stream_label);
    CudaLaunches::add_gauges(gauges, processes_.table());
    processes_.add_gauges(gauges, settings_.gpus);
    std::vector<series::FamilySnapshot> snapshots = families_.snapshots();
    page_families_.add(gauges, snapshots);
    return snapshots;
}

std::map<std::string, std::uint64_t> CudaAggregator::folded() const {
    std::map<std::string, std::uint64_t> folded = families_.folded();
    page_families_.add_to(folded);
    return folded;
}

}  // namespace gpusnoop::probes
