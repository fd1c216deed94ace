#include "exporter/probes/cuda/aggregator.h"

#include <algorithm>
#include <array>

#include "exporter/base/text.h"
#include "exporter/ebpf/record.h"
#include "exporter/probes/cuda/functions.h"
#include "exporter/symbols/names/cuda_errors.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_errors = 1'000;
constexpr std::uint64_t surplus_errors = std::uint64_t{1} << 63;  // no key of a single one

std::string shape_text(const std::array<std::uint32_t, 3> &shape) {
    return std::to_string(shape[0]) + "x" + std::to_string(shape[1]) + "x" +
           std::to_string(shape[2]);
}

}  // namespace

CudaAggregator::CudaAggregator(CudaSettings settings, CudaSurroundings surroundings)
    : settings_(std::move(settings)),
      surroundings_(std::move(surroundings)),
      family_set_(settings_.budget, settings_.pid_label),
      families_(make_cuda_families(family_set_)),
      processes_(family_set_,
                 {.budget = settings_.budget,
                  .pid_label = settings_.pid_label,
                  .retention = settings_.retention,
                  .look_up =
                      [this](ProcessIdentity &identity) {
                          auto &process = static_cast<Process &>(identity);
                          process.executable.tgid = process.key.tgid;
                          surroundings_.describe(process);
                          return true;
                      }},
                 {}, [this] { return std::make_unique<Process>(&memory_); }),
      now_(settings_.started) {}

// ---- from the rings ----

namespace {

// The record, if the bytes are one of its type; `use` gets it.
template <typename Record, typename Use>
bool decode_for(std::span<const std::byte> bytes, Use use) {
    const auto record = ebpf::decode<Record>(bytes);
    if (record) {
        use(*record);
    }
    return record.has_value();
}

std::optional<cuda_record> head_of(std::span<const std::byte> bytes) {
    return ebpf::decode<cuda_record>(bytes.first(std::min(bytes.size(), sizeof(cuda_record))));
}

}  // namespace

template <typename Record>
bool CudaAggregator::keep_for_book(std::span<const std::byte> bytes) {
    return decode_for<Record>(bytes, [this](const Record &one) { pending_.emplace_back(one); });
}

void CudaAggregator::on_allocations_record(std::span<const std::byte> bytes) {
    const auto head = head_of(bytes);
    bool known = false;
    switch (head ? head->type : ~0U) {
        case CUDA_RECORD_PROCESS:
            known = decode_for<cuda_process_record>(bytes, [&](auto &one) { on_process(one); });
            break;
        case CUDA_RECORD_EXIT:
            known = keep_for_book<cuda_exit_record>(bytes);
            break;
        case CUDA_RECORD_ALLOCATE:
        case CUDA_RECORD_FREE:
            known = keep_for_book<cuda_allocation_record>(bytes);
            break;
        case CUDA_RECORD_MAP:
        case CUDA_RECORD_UNMAP:
            known = keep_for_book<cuda_mapping_record>(bytes);
            break;
        case CUDA_RECORD_RESET:
            known = keep_for_book<cuda_reset_record>(bytes);
            break;
        case CUDA_RECORD_KERNEL:
            known = decode_for<cuda_kernel_record>(bytes, [&](auto &one) { on_kernel(one); });
            break;
        case CUDA_RECORD_NAME:
            known = decode_for<cuda_name_record>(bytes, [&](auto &one) { on_name(one); });
            break;
        case CUDA_RECORD_FAILED:
            known =
                decode_for<cuda_failed_record>(bytes, [&](auto &one) { count_error(one.head); });
            break;
        default:
            break;
    }
    undecodable_ += known ? 0 : 1;
}

void CudaAggregator::on_calls_record(std::span<const std::byte> bytes) {
    const auto head = head_of(bytes);
    bool known = false;
    switch (head ? head->type : ~0U) {
        case CUDA_RECORD_LAUNCH:
            known = decode_for<cuda_launch_record>(bytes, [&](auto &one) { on_launch(one); });
            break;
        case CUDA_RECORD_COPY:
            known = decode_for<cuda_copy_record>(bytes, [&](auto &one) { on_copy(one); });
            break;
        case CUDA_RECORD_SET:
            known = decode_for<cuda_copy_record>(bytes, [&](auto &one) { on_set(one); });
            break;
        case CUDA_RECORD_GRAPH:
            known = decode_for<cuda_graph_record>(bytes, [&](auto &one) { on_graph(one); });
            break;
        case CUDA_RECORD_WAIT:
            known = decode_for<cuda_wait_record>(bytes, [&](auto &one) { on_wait(one); });
            break;
        case CUDA_RECORD_FAILED:
            known =
                decode_for<cuda_failed_record>(bytes, [&](auto &one) { count_error(one.head); });
            break;
        default:
            break;
    }
    undecodable_ += known ? 0 : 1;
}

void CudaAggregator::on_copy(const cuda_copy_record &record) {
    Process &process = process_of(record.head);
    if (record.is_async != 0) {  // now, in the order of the calls that wait
        process.async_copies.submitted(record.stream, record.bytes, record.head.ended_ns);
    }
    if (record.kind < COPY_DEFAULT) {
        return count_copy(process, record, record.kind);
    }
    pending_.emplace_back(record);  // Default: the book says what its pointers are
}

void CudaAggregator::on_set(const cuda_copy_record &record) {
    Process &process = process_of(record.head);
    const std::int32_t device = device_of(process, record.head.device);
    const std::uint64_t key = slot_key(device, record.is_async != 0 ? 1 : 0);
    auto found = process.sets.find(key);
    if (found == process.sets.end()) {
        const auto values =
            labels(process, {record.is_async != 0 ? "async" : "sync", gpu_of(process, device)});
        found = process.sets
                    .try_emplace(key, SetSlots{families_.sets.slot(process.owner, values),
                                               families_.set_bytes.slot(process.owner, values)})
                    .first;
    }
    families_.sets.add(found->second.total, 1);
    families_.set_bytes.add(found->second.bytes, record.bytes);
}

void CudaAggregator::on_graph(const cuda_graph_record &record) {
    Process &process = process_of(record.head);
    const std::int32_t device = device_of(process, record.head.device);
    auto found = process.graphs.find(slot_key(device, 0));
    if (found == process.graphs.end()) {
        found = process.graphs
                    .try_emplace(slot_key(device, 0),
                                 families_.graph_launches.slot(
                                     process.owner, labels(process, {gpu_of(process, device)})))
                    .first;
    }
    families_.graph_launches.add(found->second, 1);
}

void CudaAggregator::on_wait(const cuda_wait_record &record) {
    AsyncCopies &copies = process_of(record.head).async_copies;
    const std::uint64_t began_ns = record.head.ended_ns - record.head.duration_ns;
    if (record.stream == CUDA_ALL_STREAMS) {
        copies.waited_for_all(began_ns);
    } else {
        copies.waited(record.stream, began_ns);
    }
}

void CudaAggregator::on_launch(const cuda_launch_record &record) {
    Process &process = process_of(record.head);
    const std::int32_t device = device_of(process, record.head.device);
    const bool one_more =
        process.kernels.size() < max_kernels || process.kernels.contains(record.kernel);
    LaunchShape shape{one_more ? record.kernel : surplus_kernel,
                      device,
                      {record.grid[0], record.grid[1], record.grid[2]},
                      {record.block[0], record.block[1], record.block[2]}};
    if (const std::string *name = process.renames > 0 ? former_name(process, record) : nullptr) {
        families_.launches.add(launch_slot(process, shape, *name), 1);
        return observe_launch(process, device, record);
    }
    auto found = process.launches.find(shape);
    if (found == process.launches.end()) {
        if (!one_more || process.launches.size() >= max_launch_shapes) {
            shape.grid = shape.block = {};
        }
        found = process.launches.try_emplace(shape).first;
    }
    LaunchCount &count = found.value();
    if (count.renames != process.renames) {
        forget_former_name(process, shape, count);
    }
    if (count.slot) {
        families_.launches.add(*count.slot, 1);
    } else {
        count_launches(process, shape, count, 1);
    }
    observe_launch(process, device, record);
}

void CudaAggregator::observe_launch(Process &process, std::int32_t device,
                                    const cuda_launch_record &record) {
    auto times = process.launch_times.find(slot_key(device, 0));
    if (times == process.launch_times.end()) {
        const auto values = labels(process, {gpu_of(process, device)});
        times = process.launch_times
                    .try_emplace(slot_key(device, 0),
                                 std::array{families_.launch_duration.slot(process.owner, values),
                                            families_.launch_threads.slot(process.owner, values)})
                    .first;
    }
    families_.launch_duration.observe(times->second[0], record.head.duration_ns);
    std::uint64_t threads = 1;
    for (std::size_t i = 0; i < 3; i++) {
        threads *= std::uint64_t{record.grid[i]} * record.block[i];
    }
    families_.launch_threads.observe(times->second[1], threads);
}

series::Slot CudaAggregator::launch_slot(const Process &process, const LaunchShape &shape,
                                         const std::string &name) {
    const bool folded = shape.grid[0] == 0;  // no launch with an empty grid succeeds
    return families_.launches.slot(
        process.owner,
        labels(process,
               {name.empty() ? "unknown" : name, folded ? "other" : shape_text(shape.grid),
                folded ? "other" : shape_text(shape.block), gpu_of(process, shape.device)}));
}

void CudaAggregator::count_launches(Process &process, const LaunchShape &shape, LaunchCount &count,
                                    std::uint64_t amount) {
    const Kernel &kernel = kernel_of(process, shape.kernel);
    if (!kernel.name) {
        count.waiting += amount;
        return;
    }
    count.slot = launch_slot(process, shape, *kernel.name);
    families_.launches.add(*count.slot, amount + count.waiting);
    count.waiting = 0;
}

void CudaAggregator::count_error(const cuda_record &head) {
    const std::size_t number =
        std::min<std::size_t>(head.function & ~CUDA_STATIC_RUNTIME, cuda_functions().size());
    const CudaFunction *function =
        number < cuda_functions().size() ? &cuda_functions()[number] : nullptr;
    if (function != nullptr && !function->shows_errors) {
        return;
    }
    Process &process = process_of(head);
    // A program can return any number; those without a name are many only where one plays with us.
    const std::uint64_t of_function = std::uint64_t{number} << 32;
    std::uint64_t key = of_function | static_cast<std::uint32_t>(head.result);
    auto found = process.errors.find(key);
    if (found == process.errors.end() && process.errors.size() >= max_errors) {
        key = of_function | surplus_errors;
        found = process.errors.find(key);
    }
    if (found == process.errors.end()) {
        std::string error(key >= surplus_errors ? "other"
                          : function != nullptr && function->is_driver
                              ? cuda_driver_error_name(head.result)
                              : cuda_error_name(head.result));
        if (error.empty()) {
            error = "code_" + std::to_string(head.result);
        }
        const std::string_view name = function != nullptr ? function->name : "unknown";
        found = process.errors
                    .try_emplace(
                        key, families_.errors.slot(process.owner, labels(process, {name, error})))
                    .first;
    }
    families_.errors.add(found->second, 1);
}

}  // namespace gpusnoop::probes
