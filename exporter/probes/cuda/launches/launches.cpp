// The part of the CUDA aggregator that names kernels.
#include "exporter/base/label.h"
#include "exporter/base/text.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/launches/cuda_kernel_name.h"

namespace gpusnoop::probes {

namespace {

// A function of the driver stands for a kernel of the driver, which stands for a host function.
// They could also stand for one another.
constexpr int max_handles_in_a_row = 4;
constexpr std::size_t max_former_names = 16;

}  // namespace

void CudaAggregator::on_kernel(const cuda_kernel_record &record) {
    Process &process = process_of(record.head);
    if (process.kernels.size() >= max_kernels && !process.kernels.contains(record.handle)) {
        return;
    }
    Kernel &kernel = process.kernels[record.handle];
    const bool is_another =
        std::exchange(kernel.stands_for, record.stands_for) != record.stands_for;
    if (!kernel.name) {
        return;
    }
    const auto meant = process.kernels.find(record.stands_for);
    const bool is_named = meant != process.kernels.end() && meant->second.name;
    if (is_another || (is_named && meant->second.name != kernel.name)) {
        rename(process, kernel, is_named ? meant->second.name : std::nullopt, record.head.ended_ns);
    }
}

// It is another kernel now: what is launched from now on is not counted with the former one.
void CudaAggregator::rename(Process &process, Kernel &kernel, std::optional<std::string> name,
                            std::uint64_t at_ns) {
    if (kernel.former_names.size() >= max_former_names) {
        kernel.former_names.erase(kernel.former_names.begin());
    }
    kernel.former_names.emplace_back(at_ns, kernel.name.value_or(""));
    kernel.name = std::move(name);
    kernel.asked.reset();
    kernel.renamed = ++process.renames;
}

// Launches come by another way than names: one may be older than the name that its handle has now.
const std::string *CudaAggregator::former_name(const Process &process,
                                               const cuda_launch_record &record) {
    const auto kernel = process.kernels.find(record.kernel);
    if (kernel == process.kernels.end()) {
        return nullptr;
    }
    const std::uint64_t began_ns = record.head.ended_ns - record.head.duration_ns;
    for (const auto &[until_ns, name] : kernel->second.former_names) {
        if (began_ns < until_ns) {
            return &name;
        }
    }
    return nullptr;
}

void CudaAggregator::forget_former_name(const Process &process, const LaunchShape &shape,
                                        LaunchCount &count) {
    const auto kernel = process.kernels.find(shape.kernel);
    if (kernel != process.kernels.end() && kernel->second.renamed > count.renames) {
        count.slot.reset();
    }
    count.renames = process.renames;
}

// The driver gives handles again when their module was unloaded: the latest name holds.
void CudaAggregator::on_name(const cuda_name_record &record) {
    Process &process = process_of(record.head);
    if (process.kernels.size() >= max_kernels && !process.kernels.contains(record.handle)) {
        return;
    }
    const std::string_view bytes(record.name, ::strnlen(record.name, sizeof(record.name)));
    Kernel &kernel = process.kernels[record.handle];
    std::string name = to_valid_utf8(symbols::kernel_name(bytes), max_label_bytes);
    if (kernel.name == name) {
        return;
    }
    if (kernel.name) {
        return rename(process, kernel, std::move(name), record.head.ended_ns);
    }
    kernel.name = std::move(name);
    was_named(process, kernel);
}

Kernel &CudaAggregator::kernel_of(Process &process, std::uint64_t address) {
    auto found = process.kernels.find(address);
    if (found == process.kernels.end() && address == surplus_kernel) {
        found = process.kernels.try_emplace(address).first;
        found.value().name = "other";
    }
    if (found == process.kernels.end()) {
        surroundings_.catch_up();  // its handle may have been made a moment ago
        found = process.kernels.try_emplace(address).first;
        if (found->second.stands_for == 0) {
            found.value().stands_for = address;
        }
    }
    Kernel &kernel = found.value();
    std::uint64_t meant = kernel.stands_for;
    for (int i = 0; i < max_handles_in_a_row && !kernel.name; i++) {
        const auto other = process.kernels.find(meant);
        if (other == process.kernels.end()) {
            break;
        }
        kernel.name = other->second.name;
        meant = other->second.stands_for;
    }
    if (!kernel.name && !kernel.asked) {
        kernel.asked = now_;
        const std::uint64_t ticket = next_ticket_++;
        tickets_.emplace(ticket, std::pair(process.key, address));
        surroundings_.ask_for_kernel({ticket, process.executable, meant});
    }
    return process.kernels.find(address).value();
}

void CudaAggregator::on_kernel_name(const symbols::CudaKernelReply &answer) {
    const auto ticket = tickets_.find(answer.ticket);
    if (ticket == tickets_.end()) {
        return;
    }
    const auto [key, address] = ticket->second;
    tickets_.erase(ticket);
    if (Process *const process = processes_.find(key)) {
        name_kernel(*process, address, to_valid_utf8(answer.name, max_label_bytes));
    }
}

void CudaAggregator::name_kernel(Process &process, std::uint64_t address, std::string name) {
    Kernel &kernel = process.kernels[address];
    if (kernel.name) {
        return;  // given up on meanwhile
    }
    kernel.name = std::move(name);
    was_named(process, kernel);
}

// Names come in numbers: the launches that wait for them are gone through once for all of them.
void CudaAggregator::was_named(Process &process, const Kernel &kernel) {
    if (kernel.asked && !process.has_named_kernels) {
        process.has_named_kernels = true;
        named_.push_back(process.key);
    }
}

void CudaAggregator::count_named() {
    for (const ProcessKey &key : std::exchange(named_, {})) {
        if (Process *const process = processes_.find(key)) {
            process->has_named_kernels = false;
            count_waiting(*process);
        }
    }
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
