#include "exporter/ebpf/features.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/nothing.h"
#include "exporter/system/capabilities.h"

namespace gpusnoop::ebpf {

namespace {

bool filter_out(int system_call) {
    std::array<sock_filter, 4> code = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(system_call), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog program{.len = static_cast<unsigned short>(code.size()),
                             .filter = code.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Its crash must leave no core file and no report.
[[noreturn]] void work_alone(int system_call, void (*work)()) {
    const rlimit none{};
    ::setrlimit(RLIMIT_CORE, &none);
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
        ::signal(signal, SIG_DFL);
    }
    ::alarm(30);
    if (filter_out(system_call)) {
        work();
    }
    ::_exit(0);
}

}  // namespace

Result<> survives_without(int system_call, void (*work)()) {
    const pid_t child = ::fork();
    if (child < 0) {
        return fail_errno("start a process");
    }
    if (child == 0) {
        work_alone(system_call, work);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return fail_errno("wait for a process");
        }
    }
    if (WIFSIGNALED(status)) {
        return fail("ended by the signal " + std::to_string(WTERMSIG(status)) + " (" +
                    ::strsignal(WTERMSIG(status)) + ")");
    }
    return {};
}

namespace {

// A function of the exporter to attach to. Only survives_without() calls it.
__attribute__((noinline, used)) void attach_target() {
    asm volatile("nop");
}

constexpr std::array<std::pair<AttachMode, std::string_view>, 3> attach_features = {{
    {AttachMode::session, "uprobe_session"},
    {AttachMode::multi, "uprobe_multi"},
    {AttachMode::perf, "uprobe_perf"},
}};

constexpr std::string_view harmless_return_probes = "uretprobe_seccomp";
constexpr std::string_view multi_of_process = "uprobe_multi_process";

Result<> without_value(const Result<Fd> &result) {
    return result ? Result<>() : tl::unexpected(result.error());
}

Feature verdict(std::string name, const Result<> &tried) {
    return {std::move(name), tried.has_value(), tried ? "" : tried.error().message};
}

Result<Fd> try_multi(int expected_attach_type, int exe, std::uint64_t offset,
                     std::uint32_t flags = 0) {
    const auto program = load_nothing(BPF_PROG_TYPE_KPROBE, expected_attach_type);
    if (!program) {
        return tl::unexpected(program.error());
    }
    return link_nothing(program->get(), expected_attach_type, exe, offset, flags);
}

// Since commit 46ba0e49b642 ("bpf: fix multi-uprobe PID filtering logic") the kernel takes an id
// for that of a process, and refuses -1 as such; before, it looked for a thread of that id.
Result<> try_multi_of_process(int exe, std::uint64_t offset) {
    const auto program = load_nothing(BPF_PROG_TYPE_KPROBE, uprobe_multi_type);
    if (!program) {
        return tl::unexpected(program.error());
    }
    const auto link = link_nothing(program->get(), uprobe_multi_type, exe, offset, 0, -1);
    if (!link && link.error().code == EINVAL) {
        return {};
    }
    return link ? fail("the kernel attaches to a process that cannot be")
                : fail("a link of one process sees one thread only (Linux 6.10 has it right)");
}

// Puts a return probe on attach_target() and runs it under a filter that does not know the system
// call at the return, as Docker's did not when the call was new.
Result<> try_return_under_seccomp() {
#if defined(__x86_64__)
    constexpr int uretprobe = 335;  // __NR_uretprobe, which Debian's headers may not have yet
    return survives_without(uretprobe, attach_target);
#else
    return {};
#endif
}

Result<> try_perf(int exe, std::uint64_t offset) {
    std::ifstream type_file("/sys/bus/event_source/devices/uprobe/type");
    std::uint32_t type = 0;
    if (!(type_file >> type)) {
        return fail("the kernel has no uprobe perf events", ENOENT);
    }
    const std::string path = "/proc/self/fd/" + std::to_string(exe);
    perf_event_attr attr{};
    attr.size = sizeof(attr);
    attr.type = type;
    attr.config1 = reinterpret_cast<std::uint64_t>(path.c_str());
    attr.config2 = offset;
    const Fd event(
        static_cast<int>(::syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)));
    if (!event) {
        return fail_errno("attach");
    }
    return {};
}

Result<> try_map(bpf_map_type type, std::uint32_t entries) {
    const Fd map(bpf_map_create(type, "gpusnoop_test", 0, 0, entries, nullptr));
    if (!map) {
        return fail_errno("create a map");
    }
    return {};
}

// All programs of the exporter read kernel memory. A kernel that is locked down for confidentiality
// refuses it (LOCKDOWN_BPF_READ_KERNEL).
Result<> try_kernel_reads() {
    const std::array<bpf_insn, 7> code = {{
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 1, .src_reg = 10, .off = 0, .imm = 0},
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 1, .src_reg = 0, .off = 0, .imm = -8},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .src_reg = 0, .off = 0, .imm = 8},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .src_reg = 0, .off = 0, .imm = 0},
        {.code = BPF_JMP | BPF_CALL,
         .dst_reg = 0,
         .src_reg = 0,
         .off = 0,
         .imm = BPF_FUNC_probe_read_kernel},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
        {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
    }};
    const Fd program(bpf_prog_load(BPF_PROG_TYPE_KPROBE, "gpusnoop_test", "GPL", code.data(),
                                   code.size(), nullptr));
    if (!program) {
        return fail_errno("load a BPF program that reads the kernel's memory");
    }
    return {};
}

Result<> try_btf() {
    if (::access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
        return fail_errno("/sys/kernel/btf/vmlinux");
    }
    return {};
}

}  // namespace

const Feature *Features::find(std::string_view name) const {
    const auto found = std::ranges::find(list, name, &Feature::name);
    return found == list.end() ? nullptr : &*found;
}

bool Features::has_harmless_return_probes() const {
    const Feature *feature = find(harmless_return_probes);
    return feature == nullptr || feature->available;
}

bool Features::attaches_to_one(AttachMode mode) const {
    const Feature *feature = find(multi_of_process);
    return mode != AttachMode::multi || (feature != nullptr && feature->available);
}

std::vector<AttachMode> Features::attach_modes() const {
    std::vector<AttachMode> modes;
    for (const auto &[mode, name] : attach_features) {
        const Feature *feature = find(name);
        if (feature != nullptr && feature->available) {
            modes.push_back(mode);
        }
    }
    return modes;
}

Features probe_features() {
    Features features;
    features.list.push_back(verdict("btf", try_btf()));
    features.list.push_back(verdict(
        "ring_buffer", try_map(BPF_MAP_TYPE_RINGBUF, static_cast<std::uint32_t>(getpagesize()))));
    features.list.push_back(verdict("kernel_reads", try_kernel_reads()));
    const Fd exe(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const std::uint64_t offset = file_offset(reinterpret_cast<std::uintptr_t>(&attach_target));
    features.list.push_back(verdict(
        "uprobe_session", without_value(try_multi(uprobe_session_type, exe.get(), offset))));
    {
        const auto at_return =
            try_multi(uprobe_multi_type, exe.get(), offset, BPF_F_UPROBE_MULTI_RETURN);
        features.list.push_back(verdict("uprobe_multi", without_value(at_return)));
        if (at_return) {
            features.list.push_back(
                verdict(std::string(multi_of_process), try_multi_of_process(exe.get(), offset)));
        }
        // Kernels that lack the first are too old for the second.
        features.list.push_back(verdict(std::string(harmless_return_probes),
                                        at_return ? try_return_under_seccomp() : Result<>()));
    }
    features.list.push_back(verdict("uprobe_perf", try_perf(exe.get(), offset)));
    return features;
}

Result<> check_requirements(const Features &features) {
    const std::array<Capability, 2> required = {CAP_BPF, CAP_PERFMON};
    if (const auto missing = missing_capabilities(required); !missing.empty()) {
        return fail("no permission to trace: " + capability_names(missing) +
                        (missing.size() == 1 ? " is" : " are") +
                        " missing; run as root, or with the capabilities CAP_BPF, CAP_PERFMON and "
                        "CAP_SYS_PTRACE (and CAP_SYS_ADMIN before Linux 6.6)",
                    EPERM);
    }
    const Feature *ring = features.find("ring_buffer");
    if (ring != nullptr && !ring->available) {
        if (ring->reason.find(std::strerror(EPERM)) != std::string::npos) {
            return fail(
                "no permission to use BPF, though CAP_BPF is there: is this a user namespace, or "
                "is "
                "there a seccomp filter?",
                EPERM);
        }
        return fail("this kernel has no BPF ring buffer (" + ring->reason +
                    "): Linux 5.15 or newer is needed");
    }
    const Feature *btf = features.find("btf");
    if (btf != nullptr && !btf->available) {
        return fail("this kernel has no BTF (" + btf->reason +
                    "): a kernel built with CONFIG_DEBUG_INFO_BTF is needed");
    }
    // After this, no probe that reads a per-CPU map can lack it.
    if (const auto cpus = possible_cpus(); !cpus) {
        return tl::unexpected(cpus.error());
    }
    const Feature *reads = features.find("kernel_reads");
    if (reads != nullptr && !reads->available) {
        return fail("this kernel lets no BPF program read its memory (" + reads->reason +
                        "): is it locked down (/sys/kernel/security/lockdown: confidentiality)?",
                    EPERM);
    }
    return {};
}

std::vector<AttachMode> attach_modes(Attach wanted, const Features &features) {
    switch (wanted) {
        case Attach::session:
            return {AttachMode::session};
        case Attach::multi:
            return {AttachMode::multi};
        case Attach::perf:
            return {AttachMode::perf};
        case Attach::automatic:
            break;
    }
    return features.attach_modes();
}

}  // namespace gpusnoop::ebpf
