#include "exporter/probes/cuda_aggregator.h"

#include <algorithm>
#include <array>

#include "exporter/base/text.h"
#include "exporter/kernel/record.h"
#include "exporter/probes/cuda_errors.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_label_bytes = 128;
// Per process; what is more is counted as "other", like what is past the family's budget.
constexpr std::size_t max_kernels = 16'384;
constexpr std::size_t max_launch_shapes = 65'536;
constexpr std::uint64_t surplus_kernel = 0;  // stands for all of them; no kernel is there

constexpr std::size_t max_errors = 1'000;
constexpr int surplus_error = -1;

constexpr std::array<std::string_view, CUDA_FUNCTION_COUNT> function_names = {
#define FUNCTION(symbol, name, operation) #name,
    CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

std::string shape_text(const std::array<std::uint32_t, 3> &shape) {
    return std::to_string(shape[0]) + "x" + std::to_string(shape[1]) + "x" +
           std::to_string(shape[2]);
}

}  // namespace

CudaAggregator::CudaAggregator(CudaSettings settings, CudaSurroundings surroundings)
    : settings_(std::move(settings)),
      surroundings_(std::move(surroundings)),
      families_(make_cuda_families(settings_.budget, settings_.pid_label)) {}

// ---- from the rings ----

void CudaAggregator::on_allocations_record(std::span<const std::byte> bytes) {
    const auto head =
        kernel::decode<cuda_record>(bytes.first(std::min(bytes.size(), sizeof(cuda_record))));
    if (!head) {
        undecodable_++;
        return;
    }
    if (head->type == CUDA_RECORD_PROCESS) {
        if (const auto record = kernel::decode<cuda_process_record>(bytes)) {
            return on_process(*record);
        }
    } else if (head->type == CUDA_RECORD_KERNEL) {
        if (const auto record = kernel::decode<cuda_kernel_record>(bytes)) {
            return on_kernel(*record);
        }
    } else if (head->type == CUDA_RECORD_ALLOCATE || head->type == CUDA_RECORD_FREE) {
        if (const auto record = kernel::decode<cuda_allocation_record>(bytes)) {
            if (record->head.result != 0) {
                return count_error(record->head);
            }
            pending_.emplace_back(*record);
            return;
        }
    } else if (head->type == CUDA_RECORD_EXIT) {
        if (const auto record = kernel::decode<cuda_exit_record>(bytes)) {
            pending_.emplace_back(*record);
            return;
        }
    }
    undecodable_++;
}

void CudaAggregator::on_calls_record(std::span<const std::byte> bytes) {
    const auto head =
        kernel::decode<cuda_record>(bytes.first(std::min(bytes.size(), sizeof(cuda_record))));
    if (head && head->type == CUDA_RECORD_LAUNCH) {
        if (const auto record = kernel::decode<cuda_launch_record>(bytes)) {
            return on_launch(*record);
        }
    } else if (head && head->type == CUDA_RECORD_COPY) {
        if (const auto record = kernel::decode<cuda_copy_record>(bytes)) {
            return on_copy(*record);
        }
    }
    undecodable_++;
}

void CudaAggregator::on_kernel(const cuda_kernel_record &record) {
    Process &process = process_of(record.head);
    if (record.head.result != 0) {
        return count_error(record.head);
    }
    if (process.kernels.size() >= max_kernels) {
        return;
    }
    auto [kernel, is_new] = process.kernels.try_emplace(record.handle);
    if (is_new || !kernel->second.name) {
        kernel.value().host_function = record.host_function;
    }
}

void CudaAggregator::on_copy(const cuda_copy_record &record) {
    if (record.head.result != 0) {
        return count_error(record.head);
    }
    if (record.kind < CUDA_COPY_DEFAULT) {
        return count_copy(process_of(record.head), record, record.kind);
    }
    pending_.emplace_back(record);  // Default: the book says what its pointers are
}

void CudaAggregator::on_launch(const cuda_launch_record &record) {
    if (record.head.result != 0) {
        return count_error(record.head);
    }
    Process &process = process_of(record.head);
    const bool one_more =
        process.kernels.size() < max_kernels || process.kernels.contains(record.kernel);
    LaunchShape shape{one_more ? record.kernel : surplus_kernel,
                      {record.grid[0], record.grid[1], record.grid[2]},
                      {record.block[0], record.block[1], record.block[2]}};
    auto found = process.launches.find(shape);
    if (found == process.launches.end()) {
        if (!one_more || process.launches.size() >= max_launch_shapes) {
            shape.grid = shape.block = {};
        }
        found = process.launches.try_emplace(shape).first;
    }
    if (LaunchCount &count = found.value(); count.slot) {
        families_.launches.add(*count.slot, 1);
    } else {
        count_launches(process, shape, count, 1);
    }
    if (!process.launch_duration) {
        process.launch_duration =
            families_.launch_duration.slot(process.owner, labels(process, {"unknown"}));
        process.launch_threads =
            families_.launch_threads.slot(process.owner, labels(process, {"unknown"}));
    }
    families_.launch_duration.observe(*process.launch_duration, record.head.duration_ns);
    std::uint64_t threads = 1;
    for (std::size_t i = 0; i < 3; i++) {
        threads *= std::uint64_t{record.grid[i]} * record.block[i];
    }
    families_.launch_threads.observe(*process.launch_threads, threads);
}

void CudaAggregator::count_launches(Process &process, const LaunchShape &shape, LaunchCount &count,
                                    std::uint64_t amount) {
    const Kernel &kernel = kernel_of(process, shape.kernel);
    if (!kernel.name) {
        count.waiting += amount;
        return;
    }
    const bool folded = shape.grid[0] == 0;  // no launch with an empty grid succeeds
    count.slot = families_.launches.slot(
        process.owner, labels(process, {kernel.name->empty() ? "unknown" : *kernel.name,
                                        folded ? "other" : shape_text(shape.grid),
                                        folded ? "other" : shape_text(shape.block), "unknown"}));
    families_.launches.add(*count.slot, amount + count.waiting);
    count.waiting = 0;
}

void CudaAggregator::count_error(const cuda_record &head) {
    Process &process = process_of(head);
    // A program can return any number; those without a name are many only where one plays with us.
    const int result = process.errors.size() < max_errors ? head.result : surplus_error;
    const std::uint64_t key =
        (std::uint64_t{head.function} << 32) | static_cast<std::uint32_t>(result);
    auto found = process.errors.find(key);
    if (found == process.errors.end()) {
        const std::string_view function =
            head.function < function_names.size() ? function_names[head.function] : "unknown";
        std::string error(result == surplus_error ? "other" : cuda_error_name(result));
        if (error.empty()) {
            error = "code_" + std::to_string(result);
        }
        found = process.errors
                    .try_emplace(key, families_.errors.slot(process.owner,
                                                            labels(process, {function, error})))
                    .first;
    }
    families_.errors.add(found->second, 1);
}

// ---- kernels ----

Kernel &CudaAggregator::kernel_of(Process &process, std::uint64_t address) {
    auto found = process.kernels.find(address);
    if (found == process.kernels.end() && address == surplus_kernel) {
        found = process.kernels.try_emplace(address).first;
        found.value().name = "other";
    }
    if (found == process.kernels.end()) {
        surroundings_.catch_up();  // its handle may have been made a moment ago
        found = process.kernels.try_emplace(address).first;
        if (found->second.host_function == 0) {
            found.value().host_function = address;
        }
    }
    Kernel &kernel = found.value();
    if (!kernel.name && !kernel.asked) {
        kernel.asked = now_;
        const std::uint64_t ticket = next_ticket_++;
        tickets_.emplace(ticket, std::pair(process.key, address));
        surroundings_.ask_for_kernel({ticket, process.executable, kernel.host_function});
    }
    return process.kernels.find(address).value();
}

void CudaAggregator::on_kernel_name(const symbols::KernelAnswer &answer) {
    const auto ticket = tickets_.find(answer.ticket);
    if (ticket == tickets_.end()) {
        return;
    }
    const auto [key, address] = ticket->second;
    tickets_.erase(ticket);
    if (const auto process = processes_.find(key); process != processes_.end()) {
        name_kernel(*process->second, address, to_valid_utf8(answer.name, max_label_bytes));
    }
}

void CudaAggregator::name_kernel(Process &process, std::uint64_t address, std::string name) {
    Kernel &kernel = process.kernels[address];
    if (kernel.name) {
        return;  // given up on meanwhile
    }
    kernel.name = std::move(name);
    count_waiting(process);
}

// Enters the launches whose kernels have got their names.
void CudaAggregator::count_waiting(Process &process) {
    for (auto entry = process.launches.begin(); entry != process.launches.end(); ++entry) {
        if (entry->second.waiting > 0) {
            count_launches(process, entry->first, entry.value(), 0);
        }
    }
}

}  // namespace gpusnoop::probes
