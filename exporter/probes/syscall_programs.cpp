#include "exporter/probes/syscall_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string_view>
#include <utility>

#include "exporter/base/machine.h"
#include "exporter/base/syscall_names.h"
#include "exporter/kernel/hash_map.h"
#include "exporter/kernel/kprobe.h"
#include "exporter/kernel/link.h"
#include "exporter/kernel/object.h"
#include "exporter/kernel/skeleton.h"
#include "exporter/kernel/symbols.h"
#include "syscall.skel.h"

namespace gpusnoop::probes {

struct SyscallPrograms::Loaded {
    kernel::Skeleton<syscall_bpf> skeleton;
    // Detached before the skeleton goes.
    std::vector<kernel::Link> links;
    kernel::Link list_counts;
    kernel::Link list_errors;
};

namespace {

// Of a trace; a power of two.
constexpr std::uint32_t trace_ring_bytes = 32U << 20U;

void want(syscall_bpf &skeleton, std::uint32_t number) {
    skeleton.rodata->wanted[number / 64] |= std::uint64_t{1} << (number % 64);
}

// Names that this machine has no number for are of others.
void want(syscall_bpf &skeleton, const std::vector<std::string> &names) {
    for (std::uint32_t number = 0; names.empty() && number < SYSCALL_COUNT; number++) {
        want(skeleton, number);
    }
    for (const std::string &name : names) {
        if (name == "compat") {
            want(skeleton, SYSCALL_COMPAT);
        } else if (name == "unknown") {
            want(skeleton, SYSCALL_UNKNOWN);
        } else if (const auto number = syscall_number(name)) {
            want(skeleton, *number);
        }
        for (const std::string_view one : syscalls_of_group(name)) {
            if (const auto number = syscall_number(one)) {
                want(skeleton, *number);
            }
        }
    }
}

// Whether the functions are there that call the tracepoints, and kprobes.
bool has_functions() {
    constexpr std::string_view names[] = {SYSCALL_ENTER_FUNCTION, SYSCALL_LEAVE_FUNCTION,
                                          SYSCALL_EXIT_FUNCTION};
    const auto found = kernel::find_kernel_symbols(names);
    return found && found->size() == std::size(names) && kernel::check_kprobes();
}

// From a call's end to its beginning: what has begun then has its end seen.
std::vector<bpf_program *> choose_programs(const syscall_bpf &skeleton) {
    const auto &all = skeleton.progs;
    const bool by_function = has_functions();
    for (bpf_program *program :
         {all.exit_function, all.leave_function, all.enter_function, all.keep_functions_called}) {
        kernel::load_if(program, by_function);
    }
    for (bpf_program *program : {all.leave, all.enter}) {
        kernel::load_if(program, !by_function);
    }
    if (by_function) {
        return {all.thread_exit,    all.process_exec,   all.exit_function,
                all.leave_function, all.enter_function, all.keep_functions_called};
    }
    return {all.thread_exit, all.process_exec, all.leave, all.enter};
}

}  // namespace

SyscallPrograms::SyscallPrograms(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
SyscallPrograms::~SyscallPrograms() = default;

Result<std::unique_ptr<SyscallPrograms>> SyscallPrograms::load(
    const config::Config::Syscall &config, Targets &targets, Mode mode) {
    auto loaded = std::make_unique<Loaded>();
    loaded->skeleton.reset(syscall_bpf::open());
    if (!loaded->skeleton) {
        return fail_errno("open the BPF programs");
    }
    syscall_bpf &skeleton = *loaded->skeleton;
    want(skeleton, config.syscalls);
    const auto cpus = static_cast<std::uint32_t>(std::max(libbpf_num_possible_cpus(), 1));
    skeleton.rodata->shard_mask =
        std::min<std::uint32_t>(std::bit_ceil(cpus), SYSCALL_MAX_SHARDS) - 1;
    skeleton.rodata->rt_sigreturn = syscall_number("rt_sigreturn").value_or(SYSCALL_COUNT);
    const bool is_trace = mode == Mode::trace;
    if (is_trace) {
        skeleton.rodata->tracer_tgid = ::getpid();
        bpf_map__set_max_entries(skeleton.maps.records, trace_ring_bytes);
    }
    bpf_map__set_max_entries(skeleton.maps.counts, is_trace ? 1 : config.max_counts);
    bpf_map__set_max_entries(skeleton.maps.errors, is_trace ? 1 : config.max_counts);
    if (const auto given = targets.give_to(skeleton); !given) {
        return tl::unexpected(given.error());
    }
    const std::vector<bpf_program *> programs = choose_programs(skeleton);
    if (const int error = syscall_bpf::load(&skeleton); error != 0) {
        return fail_errno("load the BPF programs", -error);
    }
    skeleton.bss->attached_ns = static_cast<std::uint64_t>(now_on(CLOCK_MONOTONIC).count());
    for (const bpf_program *program : programs) {
        kernel::Link link(bpf_program__attach(program));
        if (!link) {
            return fail_errno(std::string("attach the BPF program ") + bpf_program__name(program));
        }
        loaded->links.push_back(std::move(link));
    }
    auto counts =
        kernel::link_to_entries(skeleton.progs.list_counts, bpf_map__fd(skeleton.maps.counts));
    if (!counts) {
        return tl::unexpected(counts.error());
    }
    auto errors =
        kernel::link_to_entries(skeleton.progs.list_errors, bpf_map__fd(skeleton.maps.errors));
    if (!errors) {
        return tl::unexpected(errors.error());
    }
    loaded->list_counts = std::move(*counts);
    loaded->list_errors = std::move(*errors);
    return std::unique_ptr<SyscallPrograms>(new SyscallPrograms(std::move(loaded)));
}

Result<SyscallReading> SyscallPrograms::read() const {
    SyscallReading reading;
    const auto counts = kernel::for_each_entry<syscall_key, syscall_counts>(
        loaded_->list_counts,
        [&](const auto &key, const auto &value) { reading.counts.emplace_back(key, value); });
    if (!counts) {
        return tl::unexpected(counts.error());
    }
    const auto errors = kernel::for_each_entry<syscall_error_key, std::uint64_t>(
        loaded_->list_errors,
        [&](const auto &key, std::uint64_t value) { reading.errors.emplace_back(key, value); });
    if (!errors) {
        return tl::unexpected(errors.error());
    }
    return reading;
}

void SyscallPrograms::forget(const SyscallReading &reading,
                             const std::vector<ProcessKey> &processes) const {
    if (processes.empty()) {
        return;
    }
    const std::set<ProcessKey> gone(processes.begin(), processes.end());
    const auto &maps = loaded_->skeleton->maps;
    for (const auto &[key, counts] : reading.counts) {
        if (gone.contains({key.tgid, key.since_ns})) {
            bpf_map_delete_elem(bpf_map__fd(maps.counts), &key);
        }
    }
    for (const auto &[key, count] : reading.errors) {
        if (gone.contains({key.tgid, key.since_ns})) {
            bpf_map_delete_elem(bpf_map__fd(maps.errors), &key);
        }
    }
}

std::size_t SyscallPrograms::attached() const {
    return 2;  // at their beginning and at their end
}
std::string_view SyscallPrograms::at() const {
    return bpf_program__autoload(loaded_->skeleton->progs.enter) ? "tracepoints" : "functions";
}
int SyscallPrograms::records_ring() const {
    return bpf_map__fd(loaded_->skeleton->maps.records);
}
int SyscallPrograms::account_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.account);
}
kernel::Runs SyscallPrograms::runs() const {
    const auto &skeleton = *loaded_->skeleton;
    const bpf_program *const does_nothing = skeleton.progs.keep_functions_called;
    return kernel::runs_of(skeleton.obj, {&does_nothing, 1});
}

}  // namespace gpusnoop::probes
