#include "exporter/probes/syscall/programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string_view>
#include <utility>

#include "exporter/ebpf/attach/kernel_hooks.h"
#include "exporter/ebpf/kernel_types.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/ebpf/object.h"
#include "exporter/symbols/names/syscall_names.h"
#include "syscall.skel.h"

namespace gpusnoop::probes {

namespace {

void want(syscall_bpf &skeleton, std::uint32_t number) {
    skeleton.rodata->wanted[number / 64] |= std::uint64_t{1} << (number % 64);
}

// Ignores names of system calls that this machine does not have.
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

// Does the kernel have the functions that call the tracepoints, and kprobes?
bool has_functions() {
    constexpr std::string_view names[] = {SYSCALL_ENTER_FUNCTION, SYSCALL_LEAVE_FUNCTION,
                                          SYSCALL_EXIT_FUNCTION};
    const auto found = ebpf::find_kernel_symbols(names);
    return found && found->size() == std::size(names) && ebpf::check_kprobes();
}

}  // namespace

Result<> configure_programs(syscall_bpf &skeleton, const SyscallConfig &config, SyscallUse use) {
    const auto cpus = ebpf::possible_cpus();
    if (!cpus) {
        return tl::unexpected(cpus.error());
    }
    const bool is_trace = use != SyscallUse::counts;
    want(skeleton, config.syscalls);
    skeleton.rodata->shard_mask = static_cast<std::uint32_t>(
        std::min<std::size_t>(std::bit_ceil(*cpus), SYSCALL_MAX_SHARDS) - 1);
    skeleton.rodata->rt_sigreturn = syscall_number("rt_sigreturn").value_or(SYSCALL_COUNT);
    skeleton.rodata->tracer_tgid = is_trace ? static_cast<std::uint32_t>(::getpid()) : 0;
    skeleton.rodata->with_paths = use == SyscallUse::trace_of_paths;
    skeleton.rodata->path_first[0] = syscall_number("open").value_or(SYSCALL_COUNT);
    skeleton.rodata->path_first[1] = syscall_number("creat").value_or(SYSCALL_COUNT);
    bpf_map__set_max_entries(skeleton.maps.syscall_counts, is_trace ? 1 : config.max_counts);
    bpf_map__set_max_entries(skeleton.maps.syscall_errors, is_trace ? 1 : config.max_counts);
    ebpf::grow_on_demand(skeleton.maps.syscall_procs);
    const auto &all = skeleton.progs;
    const bool by_function = has_functions();
    for (bpf_program *program :
         {all.syscall_k_exit, all.syscall_k_leave, all.syscall_k_enter, all.syscall_keep}) {
        ebpf::load_if(program, by_function);
    }
    for (bpf_program *program : {all.syscall_leave, all.syscall_enter}) {
        ebpf::load_if(program, !by_function);
    }
    const bool by_entry = ebpf::can_link_to_entries();
    for (bpf_program *program : {all.syscall_lscount, all.syscall_lserror}) {
        ebpf::load_if(program, by_entry);
    }
    return {};
}

std::vector<const bpf_program *> programs_to_attach(const syscall_bpf &skeleton) {
    const auto &all = skeleton.progs;
    std::vector<const bpf_program *> programs = {
        all.syscall_exit,    all.syscall_exec, all.syscall_k_exit, all.syscall_k_leave,
        all.syscall_k_enter, all.syscall_keep, all.syscall_leave,  all.syscall_enter};
    std::erase_if(programs, [](const auto *program) { return !bpf_program__autoload(program); });
    return programs;
}

Result<SyscallTables> SyscallTables::open(const syscall_bpf &skeleton) {
    SyscallTables tables;
    tables.counts_fd_ = bpf_map__fd(skeleton.maps.syscall_counts);
    tables.errors_fd_ = bpf_map__fd(skeleton.maps.syscall_errors);
    if (!bpf_program__autoload(skeleton.progs.syscall_lscount)) {
        return tables;
    }
    auto counts = ebpf::link_to_entries(skeleton.progs.syscall_lscount, tables.counts_fd_);
    if (!counts) {
        return tl::unexpected(counts.error());
    }
    auto errors = ebpf::link_to_entries(skeleton.progs.syscall_lserror, tables.errors_fd_);
    if (!errors) {
        return tl::unexpected(errors.error());
    }
    tables.list_counts_ = std::move(*counts);
    tables.list_errors_ = std::move(*errors);
    return tables;
}

Result<SyscallReading> SyscallTables::read() const {
    SyscallReading reading;
    const auto add_count = [&](const syscall_key &key, const syscall_counts &value) {
        reading.counts.emplace_back(key, value);
    };
    const auto add_error = [&](const syscall_error_key &key, std::uint64_t value) {
        reading.errors.emplace_back(key, value);
    };
    const auto counts =
        list_counts_ ? ebpf::for_each_entry<syscall_key, syscall_counts>(list_counts_, add_count)
                     : ebpf::for_each<syscall_key, syscall_counts>(counts_fd_, add_count);
    if (!counts) {
        return tl::unexpected(counts.error());
    }
    const auto errors =
        list_errors_
            ? ebpf::for_each_entry<syscall_error_key, std::uint64_t>(list_errors_, add_error)
            : ebpf::for_each<syscall_error_key, std::uint64_t>(errors_fd_, add_error);
    if (!errors) {
        return tl::unexpected(errors.error());
    }
    return reading;
}

void SyscallTables::forget(const SyscallReading &reading,
                           const std::vector<ProcessKey> &processes) const {
    if (processes.empty()) {
        return;
    }
    const std::set<ProcessKey> gone(processes.begin(), processes.end());
    for (const auto &[key, counts] : reading.counts) {
        if (gone.contains({key.tgid, key.since_ns})) {
            bpf_map_delete_elem(counts_fd_, &key);
        }
    }
    for (const auto &[key, count] : reading.errors) {
        if (gone.contains({key.tgid, key.since_ns})) {
            bpf_map_delete_elem(errors_fd_, &key);
        }
    }
}

}  // namespace gpusnoop::probes
