#include "exporter/probes/cuda/copies/copies.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

namespace gpusnoop::probes {

namespace {

// 10 TB/s: a higher rate means that the program invented the size.
constexpr double most_kilobytes_per_second = 1e10;

}  // namespace

// The slots that a process uses, looked up once.
struct CudaCopies::Slots {
    series::Slot total, bytes;
    std::optional<series::Slot> seconds, size;        // not of graphs
    std::optional<series::Slot> bandwidth, duration;  // sync only
};

struct CudaCopies::SetSlots {
    series::Slot total, bytes;
};

struct CudaCopies::State final : PartState {
    static constexpr Part part = Part::copies;

    tsl::robin_map<std::uint64_t, Slots> slots;         // device, kind, mode
    tsl::robin_map<std::uint64_t, SetSlots> set_slots;  // device, mode
    AsyncCopies under_way;
    BytesByKind copied{};
};

void CudaCopies::started(Process &process) {
    add_state<State>(process);
}

const CudaCopies::BytesByKind &CudaCopies::copied(const Process &process) {
    return state_of<State>(process).copied;
}

bool CudaCopies::on_copy(Process &process, const cuda_copy_record &record) {
    if (record.is_async != 0) {  // now, in the order of the calls that wait
        state_of<State>(process).under_way.submitted(record.stream, record.bytes,
                                                     record.head.ended_ns);
    }
    if (record.kind >= COPY_DEFAULT) {
        return false;
    }
    count(process, record, record.kind);
    return true;
}

std::size_t CudaCopies::kind_of(const Process &process, std::uint64_t kind, bool to_device,
                                bool from_device) {
    if (kind < COPY_DEFAULT) {
        return kind;
    }
    if (kind == COPY_TO_ARRAY || kind == COPY_FROM_ARRAY) {
        to_device = to_device || kind == COPY_TO_ARRAY;
        from_device = from_device || kind == COPY_FROM_ARRAY;
        kind = COPY_DEFAULT;
    }
    // A pointer into a live allocation is on the device. Any other is on the host, unless the
    // process may have allocations that were not seen.
    if (kind != COPY_DEFAULT || (!process.is_complete && !(to_device && from_device))) {
        return copy_kind_unknown;
    }
    static_assert(COPY_H2H == 0 &&
                  (static_cast<unsigned>(COPY_H2D) | static_cast<unsigned>(COPY_D2H)) == COPY_D2D);
    return (to_device ? std::size_t{COPY_H2D} : 0) | (from_device ? std::size_t{COPY_D2H} : 0);
}

void CudaCopies::apply_default(Process &process, const cuda_copy_record &record, bool to_device,
                               bool from_device) {
    count(process, record, kind_of(process, record.kind, to_device, from_device));
}

std::string_view CudaCopies::name_of(Mode mode) {
    switch (mode) {
        case Mode::sync:
            return "sync";
        case Mode::async:
            return "async";
        case Mode::graph:
            break;
    }
    return "graph";
}

CudaCopies::Slots &CudaCopies::slots_of(Process &process, std::int32_t device, std::size_t kind,
                                        Mode mode) {
    auto &all = state_of<State>(process).slots;
    const std::uint64_t key = slot_key(device, kind, static_cast<std::size_t>(mode));
    auto found = all.find(key);
    if (found == all.end()) {
        const std::string_view name = copy_kind_names.at(kind);
        const auto full = labels_of(process, {name, name_of(mode), gpu_of(process, device)});
        const auto by_kind = labels_of(process, {name});
        Slots slots{families_.copies.slot(process.owner, full),
                    families_.bytes.slot(process.owner, full),
                    std::nullopt,
                    std::nullopt,
                    std::nullopt,
                    std::nullopt};
        if (mode != Mode::graph) {
            slots.seconds = families_.seconds.slot(process.owner, full);
            slots.size = families_.size.slot(process.owner, by_kind);
        }
        if (mode == Mode::sync) {
            slots.bandwidth = families_.bandwidth.slot(process.owner, by_kind);
            slots.duration = families_.duration.slot(process.owner, by_kind);
        }
        found = all.try_emplace(key, slots).first;
    }
    return found.value();
}

void CudaCopies::count(Process &process, const cuda_copy_record &record, std::size_t kind) {
    const Slots &slots =
        slots_of(process, device_of(process, record.head.device), kind, mode_of(record));
    const std::uint64_t duration_ns = record.head.duration_ns;
    families_.copies.add(slots.total, 1);
    families_.bytes.add(slots.bytes, record.bytes);
    state_of<State>(process).copied.at(kind) += record.bytes;
    families_.seconds.add(*slots.seconds, duration_ns);
    families_.size.observe(*slots.size, record.bytes);
    if (slots.duration) {
        families_.duration.observe(*slots.duration, duration_ns);
    }
    if (slots.bandwidth && duration_ns > 0 && record.bytes > 0) {
        const double kilobytes_per_second =
            static_cast<double>(record.bytes) * 1e6 / static_cast<double>(duration_ns);
        families_.bandwidth.observe(
            *slots.bandwidth,
            static_cast<std::uint64_t>(std::min(kilobytes_per_second, most_kilobytes_per_second)));
    }
}

void CudaCopies::add_by_graph(Process &process, std::int32_t device, std::size_t kind,
                              std::uint64_t copies, std::uint64_t bytes) {
    const Slots &slots = slots_of(process, device, kind, Mode::graph);
    families_.copies.add(slots.total, copies);
    families_.bytes.add(slots.bytes, bytes);
    state_of<State>(process).copied.at(kind) += bytes;
}

CudaCopies::SetSlots &CudaCopies::set_slots_of(Process &process, std::int32_t device, Mode mode) {
    auto &all = state_of<State>(process).set_slots;
    const std::uint64_t key = slot_key(device, static_cast<std::size_t>(mode));
    auto found = all.find(key);
    if (found == all.end()) {
        const auto values = labels_of(process, {name_of(mode), gpu_of(process, device)});
        found = all.try_emplace(key, SetSlots{families_.sets.slot(process.owner, values),
                                              families_.set_bytes.slot(process.owner, values)})
                    .first;
    }
    return found.value();
}

void CudaCopies::on_set(Process &process, const cuda_copy_record &record) {
    const SetSlots &slots =
        set_slots_of(process, device_of(process, record.head.device), mode_of(record));
    families_.sets.add(slots.total, 1);
    families_.set_bytes.add(slots.bytes, record.bytes);
}

void CudaCopies::add_sets_by_graph(Process &process, std::int32_t device, std::uint64_t sets,
                                   std::uint64_t bytes) {
    const SetSlots &slots = set_slots_of(process, device, Mode::graph);
    families_.sets.add(slots.total, sets);
    families_.set_bytes.add(slots.bytes, bytes);
}

void CudaCopies::on_wait(Process &process, const cuda_wait_record &record) {
    AsyncCopies &copies = state_of<State>(process).under_way;
    const std::uint64_t began_ns = record.head.ended_ns - record.head.duration_ns;
    if (record.stream == CUDA_ALL_STREAMS) {
        copies.waited_for_all(began_ns);
    } else {
        copies.waited(record.stream, began_ns);
    }
}

void CudaCopies::add_gauges(series::FamilySet &gauges, const CudaProcessTable &processes,
                            bool by_stream) {
    const CopyGauges families = make_copy_gauges(gauges, by_stream);
    processes.for_each([&](const Process &process) {
        if (process.ended) {
            return;
        }
        for (const AsyncCopies::Stream &stream : state_of<State>(process).under_way.streams()) {
            series::LabelValues labels = gauge_labels_of(process, {});
            if (by_stream) {
                labels.push_back(stream.number == 0 ? "default" : std::to_string(stream.number));
            }
            add_gauge(families.in_flight, labels, stream.bytes);
        }
    });
}

namespace {

constexpr std::size_t max_streams = 64;
constexpr std::size_t max_copies = 64;

// cudaStreamLegacy and cudaStreamPerThread (driver_types.h) are the default stream by other names.
bool is_default(std::uint64_t stream) {
    return stream <= 2;
}

void end_before(auto &copies, std::uint64_t began_ns) {
    std::erase_if(copies, [&](const auto &copy) { return copy.ended_ns <= began_ns; });
}

}  // namespace

AsyncCopies::Queue &AsyncCopies::queue_of(std::uint64_t stream) {
    if (is_default(stream) || (queues_.size() >= max_streams && !queues_.contains(stream))) {
        stream = 0;
    }
    queues_.try_emplace(0, Queue{0, {}});
    return queues_.try_emplace(stream, Queue{static_cast<unsigned>(queues_.size()), {}})
        .first->second;
}

void AsyncCopies::submitted(std::uint64_t stream, std::uint64_t bytes, std::uint64_t ended_ns) {
    auto &copies = queue_of(stream).copies;
    if (copies.size() >= max_copies) {
        // Two become one that ends when the later one ends.
        copies[1].bytes += copies[0].bytes;
        copies[1].ended_ns = std::max(copies[0].ended_ns, copies[1].ended_ns);
        copies.erase(copies.begin());
    }
    copies.push_back({ended_ns, bytes});
}

void AsyncCopies::waited(std::uint64_t stream, std::uint64_t began_ns) {
    auto queue = queues_.find(is_default(stream) ? 0 : stream);
    if (queue == queues_.end() && queues_.size() >= max_streams) {
        queue = queues_.find(0);
    }
    if (queue != queues_.end()) {
        end_before(queue->second.copies, began_ns);
    }
}

void AsyncCopies::waited_for_all(std::uint64_t began_ns) {
    for (auto &[stream, queue] : queues_) {
        end_before(queue.copies, began_ns);
    }
}

std::vector<AsyncCopies::Stream> AsyncCopies::streams() const {
    std::vector<Stream> streams;
    for (const auto &[handle, queue] : queues_) {
        Stream &stream = streams.emplace_back(Stream{queue.number, 0});
        for (const Submitted &copy : queue.copies) {
            stream.bytes += copy.bytes;
        }
    }
    return streams;
}

namespace {

// cudaMemcpy3DBatchOp in CUDA's driver_types.h, in words of 8 bytes.
enum WordOfBatch3d : std::size_t {
    word_source_type = 0,
    word_source = 1,
    word_destination_type = 5,
    word_destination = 6,
    word_extent = 10,
};

constexpr std::uint32_t operand_is_array = 2;  // cudaMemcpyOperandTypeArray

std::uint32_t kind_of_ends(bool to_array, bool from_array) {
    if (to_array && from_array) {
        return COPY_D2D;
    }
    if (to_array) {
        return COPY_TO_ARRAY;
    }
    return from_array ? COPY_FROM_ARRAY : COPY_DEFAULT;
}

void fill_3d(cuda_copy_record &copy, std::span<const __u64, CUDA_BATCH_3D_WORDS> words) {
    // The upper half of the word is padding.
    const auto is_array = [&](WordOfBatch3d type) {
        return static_cast<std::uint32_t>(words[type]) == operand_is_array;
    };
    copy.destination = words[word_destination];
    copy.source = words[word_source];
    copy.kind = kind_of_ends(is_array(word_destination_type), is_array(word_source_type));
    // For an array the width counts elements, whose size only the array knows.
    copy.bytes = copy.kind == COPY_DEFAULT
                     ? words[word_extent] * words[word_extent + 1] * words[word_extent + 2]
                     : 0;
}

}  // namespace

std::vector<cuda_copy_record> copies_of(const cuda_batch_record &batch) {
    const std::span<const __u64, CUDA_BATCH_WORDS> words(batch.words);
    const std::size_t most = batch.is_3d != 0 ? CUDA_BATCH_3D_COPIES : CUDA_BATCH_COPIES;
    std::vector<cuda_copy_record> copies(std::min<std::size_t>(batch.copies, most));
    for (std::size_t i = 0; i < copies.size(); i++) {
        cuda_copy_record &copy = copies[i];
        copy.head = batch.head;
        copy.head.duration_ns = i == 0 ? batch.head.duration_ns : 0;
        copy.stream = batch.stream;
        copy.is_async = 1;
        if (batch.is_3d != 0) {
            fill_3d(copy, words.subspan(i * CUDA_BATCH_3D_WORDS).first<CUDA_BATCH_3D_WORDS>());
            continue;
        }
        copy.destination = words[i];
        copy.source = words[CUDA_BATCH_COPIES + i];
        copy.bytes = words[2 * CUDA_BATCH_COPIES + i];
        copy.kind = COPY_DEFAULT;
    }
    return copies;
}

}  // namespace gpusnoop::probes
