// The part of the CUDA aggregator that counts copies, of which the book of allocations can decide
// the direction.
#include <algorithm>

#include "exporter/probes/cuda/aggregator.h"

namespace gpusnoop::probes {

namespace {

// 10 TB/s: more is a size that a program has made up.
constexpr double most_kilobytes_per_second = 1e10;

}  // namespace

// A copy with the kind Default: a pointer into the book is on the device, any other is on the host,
// unless the process may have allocations that are older than the book.
void CudaAggregator::enter(const cuda_copy_record &record) {
    Process &process = process_of(record.head);
    const bool to_device = process.book.is_on_device(record.destination);
    const bool from_device = process.book.is_on_device(record.source);
    if (record.kind != COPY_DEFAULT || (!process.book_is_complete && !(to_device && from_device))) {
        return count_copy(process, record, copy_kind_unknown);
    }
    static_assert(COPY_H2H == 0 &&
                  (static_cast<unsigned>(COPY_H2D) | static_cast<unsigned>(COPY_D2H)) == COPY_D2D);
    const std::size_t kind =
        (to_device ? std::size_t{COPY_H2D} : 0) | (from_device ? std::size_t{COPY_D2H} : 0);
    count_copy(process, record, kind);
}

CopySlots &CudaAggregator::copy_slots(Process &process, std::int32_t device, std::size_t kind,
                                      bool is_async) {
    const std::uint64_t key = slot_key(device, kind, is_async ? 1 : 0);
    auto found = process.copies.find(key);
    if (found == process.copies.end()) {
        const std::string_view name = copy_kind_names.at(kind);
        const auto full =
            labels(process, {name, is_async ? "async" : "sync", gpu_of(process, device)});
        const auto by_kind = labels(process, {name});
        CopySlots slots{families_.copies.slot(process.owner, full),
                        families_.copied_bytes.slot(process.owner, full),
                        families_.copy_seconds.slot(process.owner, full),
                        families_.copy_size.slot(process.owner, by_kind),
                        std::nullopt,
                        std::nullopt};
        if (!is_async) {
            slots.bandwidth = families_.copy_bandwidth.slot(process.owner, by_kind);
            slots.duration = families_.copy_duration.slot(process.owner, by_kind);
        }
        found = process.copies.try_emplace(key, slots).first;
    }
    return found.value();
}

void CudaAggregator::count_copy(Process &process, const cuda_copy_record &record,
                                std::size_t kind) {
    const bool is_async = record.is_async != 0;
    const CopySlots &slots =
        copy_slots(process, device_of(process, record.head.device), kind, is_async);
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
