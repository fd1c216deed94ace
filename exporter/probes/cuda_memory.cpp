// The part of the CUDA aggregator that depends on the order of events: allocations, frees, copies
// whose direction the book decides, and the ends of processes.
#include <algorithm>

#include "exporter/probes/cuda_aggregator.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

constexpr std::string_view unknown = "unknown";
constexpr std::string_view device = "device";
// 10 TB/s: more is a size that a program has made up.
constexpr double most_kilobytes_per_second = 1e10;

nanoseconds ended_at(const auto &record) {
    return nanoseconds(static_cast<std::int64_t>(record.head.ended_ns));
}

}  // namespace

void CudaAggregator::settle(nanoseconds until) {
    const auto time_of = [](const BookEvent &event) {
        return std::visit([](const auto &record) { return ended_at(record); }, event);
    };
    std::ranges::stable_sort(pending_, {}, time_of);
    const auto end = std::ranges::upper_bound(pending_, until, {}, time_of);
    // Taken out first: entering an event can make the aggregator catch up and add further ones.
    std::vector<BookEvent> due(pending_.begin(), end);
    pending_.erase(pending_.begin(), end);
    for (const BookEvent &event : due) {
        std::visit([this](const auto &record) { enter(record); }, event);
    }
}

void CudaAggregator::enter(const cuda_allocation_record &record) {
    Process &process = process_of(record.head);
    if (record.head.type == CUDA_RECORD_FREE) {
        return free_memory(process, record.address);
    }
    if (!process.allocations) {
        process.allocations =
            families_.allocations.slot(process.owner, labels(process, {unknown, device}));
        process.allocated_bytes =
            families_.allocated_bytes.slot(process.owner, labels(process, {unknown, device}));
    }
    families_.allocations.add(*process.allocations, 1);
    families_.allocated_bytes.add(*process.allocated_bytes, record.bytes);
    if (record.address != 0) {  // an allocation of 0 bytes has no address and is never freed
        process.book.allocate(record.address, record.bytes, ended_at(record));
    }
}

void CudaAggregator::free_memory(Process &process, std::uint64_t address) {
    if (address == 0) {
        return;  // allowed, and nothing is freed
    }
    const auto bytes = process.book.free(address);
    if (!bytes) {
        if (!process.unknown_frees) {
            process.unknown_frees =
                families_.unknown_frees.slot(process.owner, labels(process, {unknown, device}));
        }
        families_.unknown_frees.add(*process.unknown_frees, 1);
        return;
    }
    if (!process.frees) {
        process.frees = families_.frees.slot(process.owner, labels(process, {unknown, device}));
        process.freed_bytes =
            families_.freed_bytes.slot(process.owner, labels(process, {unknown, device}));
    }
    families_.frees.add(*process.frees, 1);
    families_.freed_bytes.add(*process.freed_bytes, *bytes);
}

// A copy with the kind Default: a pointer into the book is on the device, any other is on the host,
// unless the process may have allocations that are older than the book.
void CudaAggregator::enter(const cuda_copy_record &record) {
    Process &process = process_of(record.head);
    const bool to_device = process.book.contains(record.destination);
    const bool from_device = process.book.contains(record.source);
    if (!process.book_is_complete && !(to_device && from_device)) {
        return count_copy(process, record, copy_kind_unknown);
    }
    static_assert(CUDA_COPY_H2H == 0 && (CUDA_COPY_H2D | CUDA_COPY_D2H) == CUDA_COPY_D2D);
    const std::size_t kind = (to_device ? std::size_t{CUDA_COPY_H2D} : 0) |
                             (from_device ? std::size_t{CUDA_COPY_D2H} : 0);
    count_copy(process, record, kind);
}

void CudaAggregator::enter(const cuda_exit_record &record) {
    const auto found = processes_.find({record.head.tgid, record.head.since_ns});
    if (found != processes_.end()) {
        end(*found->second, ended_at(record));
    }
}

CopySlots &CudaAggregator::copy_slots(Process &process, std::size_t kind, bool is_async) {
    auto &slots = process.copies.at(kind)[is_async ? 1 : 0];
    if (!slots) {
        const std::string_view name = copy_kind_names.at(kind);
        const auto full = labels(process, {name, is_async ? "async" : "sync", unknown});
        const auto by_kind = labels(process, {name});
        slots = CopySlots{families_.copies.slot(process.owner, full),
                          families_.copied_bytes.slot(process.owner, full),
                          families_.copy_seconds.slot(process.owner, full),
                          families_.copy_size.slot(process.owner, by_kind),
                          std::nullopt,
                          std::nullopt};
        if (!is_async) {
            slots->bandwidth = families_.copy_bandwidth.slot(process.owner, by_kind);
            slots->duration = families_.copy_duration.slot(process.owner, by_kind);
        }
    }
    return *slots;
}

void CudaAggregator::count_copy(Process &process, const cuda_copy_record &record,
                                std::size_t kind) {
    const CopySlots &slots = copy_slots(process, kind, record.is_async != 0);
    const std::uint64_t duration_ns = record.head.duration_ns;
    families_.copies.add(slots.total, 1);
    families_.copied_bytes.add(slots.bytes, record.bytes);
    families_.copy_seconds.add(slots.seconds, duration_ns);
    families_.copy_size.observe(slots.size, record.bytes);
    if (slots.duration) {
        families_.copy_duration.observe(*slots.duration, duration_ns);
    }
    if (slots.bandwidth && duration_ns > 0 && record.bytes > 0) {
        const double kilobytes_per_second =
            static_cast<double>(record.bytes) * 1e6 / static_cast<double>(duration_ns);
        families_.copy_bandwidth.observe(
            *slots.bandwidth,
            static_cast<std::uint64_t>(std::min(kilobytes_per_second, most_kilobytes_per_second)));
    }
}

}  // namespace gpusnoop::probes
