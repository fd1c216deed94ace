// Counts copies and memsets, and estimates the asynchronous copies under way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

// By enum cuda_copy_kind; the last is for a Default copy whose direction the live allocations do
// not show.
inline constexpr std::array<std::string_view, 5> copy_kind_names = {"h2h", "h2d", "d2h", "d2d",
                                                                    "unknown"};
inline constexpr std::size_t copy_kind_unknown = 4;

class CudaCopies {
public:
    explicit CudaCopies(series::FamilySet &families) : families_(make_copy_families(families)) {}

    static void started(Process &process);

    // False: the copy is of the kind Default. apply_default() counts it when the allocations at its
    // time are known.
    [[nodiscard]] bool on_copy(Process &process, const cuda_copy_record &record);
    void apply_default(Process &process, const cuda_copy_record &record, bool to_device,
                       bool from_device);
    void on_set(Process &process, const cuda_copy_record &record);
    // By enum cuda_copy_kind, copy_kind_unknown: the copy's own kind, or what its pointers show.
    [[nodiscard]] static std::size_t kind_of(const Process &process, std::uint64_t kind,
                                             bool to_device, bool from_device);
    // What a launch of a graph copied and set.
    void add_by_graph(Process &process, std::int32_t device, std::size_t kind, std::uint64_t copies,
                      std::uint64_t bytes);
    void add_sets_by_graph(Process &process, std::int32_t device, std::uint64_t sets,
                           std::uint64_t bytes);
    void on_wait(Process &process, const cuda_wait_record &record);

    // By copy_kind_names: all bytes that the process copied so far.
    using BytesByKind = std::array<std::uint64_t, copy_kind_names.size()>;
    [[nodiscard]] static const BytesByKind &copied(const Process &process);

    // Adds the asynchronous copies under way, of all running processes; by stream if asked for.
    static void add_gauges(series::FamilySet &gauges, const CudaProcessTable &processes,
                           bool by_stream);

private:
    struct Slots;
    struct SetSlots;
    struct State;

    enum class Mode : std::uint8_t { sync, async, graph };

    static std::string_view name_of(Mode mode);
    static Mode mode_of(const cuda_copy_record &record) {
        return record.is_async != 0 ? Mode::async : Mode::sync;
    }
    Slots &slots_of(Process &process, std::int32_t device, std::size_t kind, Mode mode);
    SetSlots &set_slots_of(Process &process, std::int32_t device, Mode mode);
    void count(Process &process, const cuda_copy_record &record, std::size_t kind);

    CopyFamilies families_;
};

// The asynchronous copies of one process that no call has waited for.
// An estimate: a copy counts as under way from its submission until a later call waits for its
// stream or for the device. Copies that end without a waiting call are noticed late; events,
// callbacks and queries are ignored.
class AsyncCopies {
public:
    // Times are the kernel's monotonic clock in nanoseconds.
    void submitted(std::uint64_t stream, std::uint64_t bytes, std::uint64_t ended_ns);
    void waited(std::uint64_t stream, std::uint64_t began_ns);
    void waited_for_all(std::uint64_t began_ns);

    struct Stream {
        unsigned number = 0;  // in the order of their first copies, from 1 on; 0: the default one
        std::uint64_t bytes = 0;
    };
    // Streams that ever had a copy, up to a limit; further ones are added to the default stream.
    [[nodiscard]] std::vector<Stream> streams() const;

private:
    struct Submitted {
        std::uint64_t ended_ns;
        std::uint64_t bytes;
    };
    struct Queue {
        unsigned number;
        std::vector<Submitted> copies;  // by time; the oldest are merged when there are many
    };
    Queue &queue_of(std::uint64_t stream);

    std::map<std::uint64_t, Queue> queues_;  // by handle
};

// The copies of a batch, as if each had been a call of its own. Only the first one has a duration.
[[nodiscard]] std::vector<cuda_copy_record> copies_of(const cuda_batch_record &batch);

}  // namespace gpusnoop::probes
