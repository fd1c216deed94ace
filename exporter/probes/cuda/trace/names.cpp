#include "exporter/probes/cuda/trace/names.h"

#include <algorithm>
#include <cstring>

#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/cuda/launches/cuda_kernel_name.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

namespace {

constexpr std::size_t max_symbol_bytes = 4096;
// Per process. Over the limit, all known names are forgotten and looked up again.
constexpr std::size_t max_kernels = 65'536;
// Handles of handles.
constexpr int max_steps = 4;

// The symbol itself: its end shows the kernel's parameters.
std::string whole_symbol(std::string_view symbol) {
    return std::string(symbol.substr(0, max_symbol_bytes));
}

KernelName kernel_of(const std::string &symbol, bool complete) {
    if (symbol.empty()) {
        return {};
    }
    return {printable(symbols::kernel_name(symbol), max_text_bytes),
            complete ? symbols::kernel_parameters(symbol) : std::nullopt};
}

template <std::size_t size>
std::string_view until_nul(const char (&bytes)[size]) {
    return {bytes, ::strnlen(bytes, size)};
}

std::vector<std::uint64_t> addresses_of(const Event &call) {
    std::vector<std::uint64_t> addresses;
    for (const StackFrame &frame : call.stack) {
        addresses.push_back(frame.address);
    }
    return addresses;
}

}  // namespace

Result<std::unique_ptr<Names>> Names::start(probes::CudaTables tables, bool scripts) {
    auto kernel_files = symbols::MappedFiles::open();
    if (!kernel_files) {
        return tl::unexpected(kernel_files.error());
    }
    auto stack_names = StackNames::start();
    if (!stack_names) {
        return tl::unexpected(stack_names.error());
    }
    return std::unique_ptr<Names>(
        new Names(std::move(*kernel_files), std::move(*stack_names), tables, scripts));
}

Names::Names(std::unique_ptr<symbols::MappedFiles> kernel_files,
             std::unique_ptr<StackNames> stack_names, probes::CudaTables tables, bool scripts)
    : kernel_namer_(std::move(kernel_files), whole_symbol, {}),
      stack_names_(std::move(stack_names)),
      tables_(tables),
      scripts_(scripts) {}

void Names::on_record(std::span<const std::byte> bytes) {
    const auto head = bytes.size() < sizeof(cuda_record)
                          ? std::nullopt
                          : ebpf::decode<cuda_record>(bytes.first(sizeof(cuda_record)));
    if (!head) {
        return;
    }
    switch (head->type) {
        case CUDA_RECORD_PROCESS:
            if (const auto record = ebpf::decode<cuda_process_record>(bytes)) {
                on_process(*record);
            }
            break;
        case CUDA_RECORD_EXIT:
            if (const auto found = processes_.find({head->tgid, head->since_ns});
                found != processes_.end()) {
                found->second.ended = 1;
            }
            break;
        case CUDA_RECORD_KERNEL:
            if (const auto record = ebpf::decode<cuda_kernel_record>(bytes)) {
                known(*head).kernels[record->handle] = {record->stands_for, std::nullopt};
            }
            break;
        case CUDA_RECORD_NAME:
            if (const auto record = ebpf::decode<cuda_name_record>(bytes)) {
                const std::string symbol(until_nul(record->name));
                known(*head).kernels[record->handle] = {
                    0, kernel_of(symbol, symbol.size() < CUDA_NAME_BYTES - 1)};
            }
            break;
        default:
            break;
    }
}

void Names::on_process(const cuda_process_record &record) {
    Known &known = processes_[{record.head.tgid, record.head.since_ns}];
    probes::ProcessIdentity identity;
    probes::take(identity, record.identity, &record.details);
    known.process = shown(std::move(identity));
    known.executable = {record.head.tgid,
                        {record.exe_inode, record.exe_device, record.exe_generation, 0},
                        record.exe_bytes,
                        record.code_start,
                        record.code_end};
    kernel_namer_.remember(known.executable);
}

Names::Process Names::shown(probes::ProcessIdentity identity) {
    if (!scripts_) {
        identity.script.clear();
    }
    if (identity.uid) {
        identity.user = users_.of(*identity.uid);
    }
    Process process;
    static_cast<processes::ProcessNames &>(process) = printable(identity);
    process.ppid = identity.ppid;
    return process;
}

// The process's record comes before its first call's, unless it was lost.
Names::Known &Names::known(const cuda_record &head) {
    const auto [found, is_new] = processes_.try_emplace({head.tgid, head.since_ns});
    Known &known = found->second;
    if (is_new) {
        known.executable.tgid = head.tgid;
        probes::ProcessIdentity identity;
        identity.key = {head.tgid, head.since_ns};
        (void)probes::look_up(identity);
        known.process = shown(std::move(identity));
    }
    if (known.kernels.size() >= max_kernels) {
        known.kernels.clear();
    }
    return known;
}

const Names::Process &Names::process(const cuda_record &head) {
    return known(head).process;
}

const KernelName &Names::kernel(const cuda_record &head, std::uint64_t handle) {
    Known &process = known(head);
    std::uint64_t address = handle;
    std::optional<KernelName> name;
    for (int i = 0; i < max_steps; i++) {
        const auto found = process.kernels.find(address);
        if (found == process.kernels.end()) {
            break;
        }
        name = found->second.name;
        if (name || found->second.stands_for == 0) {
            break;
        }
        address = found->second.stands_for;
    }
    Kernel &kernel = process.kernels[handle];
    kernel.name = name ? std::move(*name) : look_up(process, address);
    return *kernel.name;
}

KernelName Names::look_up(const Known &process, std::uint64_t address) {
    const std::uint32_t tgid = process.executable.tgid;
    const std::string symbol = kernel_namer_.name(
        {0, process.executable, address, tables_.registered_name(tgid, address)});
    return kernel_of(symbol, symbol.size() < max_symbol_bytes);
}

void Names::name_stacks(std::span<const Stack> stacks) {
    std::vector<StackNames::Stack> asked;
    for (const Stack &stack : stacks) {
        asked.push_back({{stack.head.tgid, stack.head.since_ns},
                         known(stack.head).executable.code_start,
                         addresses_of(*stack.call)});
    }
    auto named = stack_names_->name(asked);
    for (std::size_t n = 0; n < stacks.size(); n++) {
        std::vector<StackFrame> &frames = stacks[n].call->stack;
        for (std::size_t i = 0; i < std::min(frames.size(), named[n].frames.size()); i++) {
            frames[i].place = std::move(named[n].frames[i]);
        }
    }
}

void Names::forget_ended() {
    // A call that ended before its process may still be in the ring.
    std::erase_if(processes_, [](const auto &entry) { return entry.second.ended > 1; });
    for (auto &[key, process] : processes_) {
        process.ended += process.ended;
    }
    (void)kernel_namer_.close_unused();
    stack_names_->forget_old();
}

}  // namespace gpusnoop::trace
