#include "exporter/ebpf/attach/uprobe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "bpf/lib/cost.h"
#include "exporter/ebpf/attach/mapper_locks.h"
#include "exporter/system/capabilities.h"
#include "exporter/system/priority.h"

namespace gpusnoop::ebpf {

namespace {

std::string path_of(int fd) {
    return "/proc/self/fd/" + std::to_string(fd);
}

// One link for many functions. libbpf 1.4's own wrapper does not know sessions, so this is the
// system call; `flags` are BPF_F_UPROBE_MULTI_*.
Result<Fd> link_multi(const bpf_program *program, int type, int file_fd, int only_tgid,
                      std::span<const AttachPoint> points, std::uint32_t flags) {
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint64_t> cookies;
    std::vector<std::uint64_t> semaphores;
    for (const AttachPoint &point : points) {
        offsets.push_back(point.file_offset);
        cookies.push_back(point.cookie);
        semaphores.push_back(point.semaphore);
    }
    const std::string path = path_of(file_fd);
    bpf_attr attr{};
    attr.link_create.prog_fd = static_cast<std::uint32_t>(bpf_program__fd(program));
    attr.link_create.attach_type = static_cast<std::uint32_t>(type);
    attr.link_create.uprobe_multi.path = reinterpret_cast<std::uint64_t>(path.c_str());
    attr.link_create.uprobe_multi.offsets = reinterpret_cast<std::uint64_t>(offsets.data());
    attr.link_create.uprobe_multi.cookies = reinterpret_cast<std::uint64_t>(cookies.data());
    attr.link_create.uprobe_multi.ref_ctr_offsets =
        reinterpret_cast<std::uint64_t>(semaphores.data());
    attr.link_create.uprobe_multi.cnt = static_cast<std::uint32_t>(offsets.size());
    attr.link_create.uprobe_multi.flags = flags;
    attr.link_create.uprobe_multi.pid = static_cast<std::uint32_t>(std::max(only_tgid, 0));
    const long fd = ::syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
    if (fd < 0) {
        const int code = errno;
        const std::array<Capability, 2> needed = {CAP_BPF, CAP_PERFMON};
        return fail(
            "attach uprobes: " + std::string(std::strerror(code)) + missing_for(code, needed),
            code);
    }
    return Fd(static_cast<int>(fd));
}

// The values that perf_event_open() needs for a uprobe.
struct PerfUprobes {
    std::uint32_t type = 0;
    unsigned return_bit = 0;     // of `config`
    unsigned semaphore_bit = 0;  // the lowest of the semaphore's file offset there

    static Result<PerfUprobes> of_this_kernel() {
        const std::string directory = "/sys/bus/event_source/devices/uprobe/";
        PerfUprobes uprobes;
        if (!(std::ifstream(directory + "type") >> uprobes.type)) {
            return fail("the kernel has no uprobe perf events", ENOENT);
        }
        for (const auto &[name, bit] : {std::pair("retprobe", &uprobes.return_bit),
                                        std::pair("ref_ctr_offset", &uprobes.semaphore_bit)}) {
            std::string text;
            if (!(std::ifstream(directory + "format/" + name) >> text)) {
                return fail("the kernel has no uprobe perf events", ENOENT);
            }
            constexpr std::string_view prefix = "config:";
            if (!text.starts_with(prefix)) {
                return fail("the kernel's uprobe perf events have an unknown format: " + text,
                            EINVAL);
            }
            text.erase(0, prefix.size());  // "0", or "32-63"
            std::from_chars(text.data(), text.data() + text.size(), *bit);
        }
        return uprobes;
    }
};

// One descriptor: the link keeps its perf event open.
Result<Fd> link_perf(const PerfUprobes &uprobes, const bpf_program *program, int file_fd,
                     int only_tgid, const AttachPoint &point, bool at_return) {
    const auto failed = [](const std::string &what) {
        const int code = errno;
        const std::array<Capability, 1> needed = {CAP_SYS_ADMIN};
        return fail(what + ": " + std::string(std::strerror(code)) + missing_for(code, needed),
                    code);
    };
    const std::string path = path_of(file_fd);
    perf_event_attr event_attr{};
    event_attr.size = sizeof(event_attr);
    event_attr.type = uprobes.type;
    event_attr.config = at_return ? 1ULL << uprobes.return_bit : 0;
    if (point.semaphore != 0) {
        if (point.semaphore >> 32U != 0) {
            return fail("attach a perf uprobe: its semaphore is past 4 GiB of the file", EFBIG);
        }
        event_attr.config |= point.semaphore << uprobes.semaphore_bit;
    }
    event_attr.config1 = reinterpret_cast<std::uint64_t>(path.c_str());
    event_attr.config2 = point.file_offset;
    const int cpu = only_tgid < 0 ? 0 : -1;  // of all processes, one must be given
    const Fd event(static_cast<int>(
        ::syscall(SYS_perf_event_open, &event_attr, only_tgid, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
    if (!event) {
        return failed("attach a perf uprobe");
    }
    bpf_attr attr{};
    attr.link_create.prog_fd = static_cast<std::uint32_t>(bpf_program__fd(program));
    attr.link_create.target_fd = static_cast<std::uint32_t>(event.get());
    attr.link_create.attach_type = BPF_PERF_EVENT;
    attr.link_create.perf_event.bpf_cookie = point.cookie;
    Fd link(static_cast<int>(::syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr))));
    if (!link) {
        return failed("attach a program to a perf uprobe");
    }
    if (::ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0) != 0) {
        return failed("enable a perf uprobe");
    }
    return link;
}

// Whether the kernel refuses a uprobe on the instruction. On x86_64 the error is ENOTSUPP, a
// kernel-internal code, or ENOEXEC for an instruction that it cannot decode; on arm64 EINVAL
// (arch_uprobe_analyze_insn()).
bool is_refusal(int code) {
#if defined(__aarch64__)
    return code == EINVAL;
#else
    constexpr int kernel_enotsupp = 524;
    return code == kernel_enotsupp || code == ENOEXEC;
#endif
}

}  // namespace

std::string_view to_string(AttachMode mode) {
    switch (mode) {
        case AttachMode::session:
            return "session";
        case AttachMode::multi:
            return "multi";
        case AttachMode::perf:
            return "perf";
    }
    return "unknown";
}

void expect_session(bpf_program *program) {
    bpf_program__set_expected_attach_type(program,
                                          static_cast<bpf_attach_type>(uprobe_session_type));
}

UprobeSet::UprobeSet() = default;

UprobeSet UprobeSet::adopt(std::vector<Fd> links, std::size_t functions) {
    UprobeSet set;
    for (Fd &link : links) {
        set.links_.push_back({.link = std::move(link)});
    }
    set.functions_ = functions;
    return set;
}

std::vector<int> UprobeSet::links() const {
    std::vector<int> links;
    for (const Held &held : links_) {
        links.push_back(held.link.get());
    }
    return links;
}

Fd UprobeSet::take_link() {
    if (links_.empty()) {
        return {};
    }
    Fd link = std::move(links_.back().link);
    links_.pop_back();
    return link;
}

// The kernel does not say which point it refuses: bisect until the point is alone.
Result<> UprobeSet::link_together(const bpf_program *program, AttachMode mode, const Target &target,
                                  std::span<const AttachPoint> points, bool at_return,
                                  std::vector<std::uint64_t> &refused) {
    if (auto free = check_mapper_locks(target.file.id); !free) {
        return free;
    }
    auto link = link_multi(
        program, mode == AttachMode::session ? uprobe_session_type : uprobe_multi_type,
        target.file.fd, target.only_tgid, points, at_return ? BPF_F_UPROBE_MULTI_RETURN : 0);
    if (link) {
        links_.push_back({.link = {std::move(*link), target.file.kept}});
        target.on_link();
        return {};
    }
    if (!is_refusal(link.error().code)) {
        return tl::unexpected(link.error());
    }
    if (points.size() == 1) {
        refused.push_back(points.front().file_offset);
        return {};
    }
    const std::size_t half = points.size() / 2;
    for (const auto part : {points.first(half), points.subspan(half)}) {
        if (auto linked = link_together(program, mode, target, part, at_return, refused); !linked) {
            return linked;
        }
    }
    return {};
}

Result<> UprobeSet::link_each(const bpf_program *program, const Target &target,
                              std::span<const AttachPoint> points, bool at_return,
                              std::vector<std::uint64_t> &refused) {
    const auto uprobes = PerfUprobes::of_this_kernel();
    if (!uprobes) {
        return tl::unexpected(uprobes.error());
    }
    std::set<std::pair<const bpf_program *, std::uint64_t>> kept;
    for (const Held &held : links_) {
        kept.emplace(held.program, held.file_offset);
    }
    for (const AttachPoint &point : points) {
        if (kept.contains({program, point.file_offset})) {
            continue;
        }
        if (auto free = check_mapper_locks(target.file.id); !free) {
            return free;
        }
        auto link =
            link_perf(*uprobes, program, target.file.fd, target.only_tgid, point, at_return);
        if (link) {
            links_.push_back({{std::move(*link), target.file.kept}, point.file_offset, program});
            target.on_link();
        } else if (is_refusal(link.error().code)) {
            refused.push_back(point.file_offset);
        } else {
            return tl::unexpected(link.error());
        }
    }
    return {};
}

// Links all points except the refused ones, now or earlier.
Result<> UprobeSet::link_all(const bpf_program *program, AttachMode mode, const Target &target,
                             const std::vector<AttachPoint> &points, bool at_return,
                             std::vector<std::uint64_t> &refused) {
    std::vector<AttachPoint> wanted;
    std::ranges::copy_if(points, std::back_inserter(wanted), [&](const AttachPoint &point) {
        return !(at_return && point.entry_only) &&
               std::ranges::find(refused, point.file_offset) == refused.end();
    });
    if (wanted.empty()) {
        return {};
    }
    for (AttachPoint &point : wanted) {
        point.cookie |= point.is_expensive ? CALL_STEPPED : 0;
    }
    return mode == AttachMode::perf
               ? link_each(program, target, wanted, at_return, refused)
               : link_together(program, mode, target, wanted, at_return, refused);
}

Result<UprobeSet> UprobeSet::attach(const CallPrograms &programs, const ProbedFile &file,
                                    const std::vector<AttachPoint> &points,
                                    const std::vector<AttachPoint> &exits, UprobeSet kept,
                                    std::function<void()> on_link) {
    // The kernel waits several times for each point, and calls are lost until the last has a probe.
    const Preferred preferred(counting_niceness);
    const Target target{file, programs.only_tgid, std::move(on_link)};
    UprobeSet set = std::move(kept);
    const bool is_perf = programs.mode == AttachMode::perf;
    if (!is_perf && !set.is_empty()) {
        return set;  // `kept` already has every link
    }
    set.refused_ = {};
    // The ends first: a return without an entry is counted as unmatched and harmless, but an entry
    // without a return would look like a call that never ends.
    auto linked = set.link_all(programs.exit, is_perf ? AttachMode::perf : AttachMode::multi,
                               target, exits, false, set.refused_.exits);
    if (linked && !set.refused_.exits.empty()) {
        UprobeSet none;
        none.refused_ = std::move(set.refused_);
        return none;
    }
    std::vector<std::uint64_t> &refused = set.refused_.entries;
    if (linked && programs.mode != AttachMode::session) {
        linked = set.link_all(programs.leave, programs.mode, target, points, true, refused);
    }
    if (linked) {
        linked = set.link_all(programs.enter, programs.mode, target, points, false, refused);
    }
    if (!linked) {
        return tl::unexpected(linked.error());
    }
    set.functions_ = points.size() - refused.size();
    set.expensive_functions_ =
        static_cast<std::size_t>(std::ranges::count_if(points, [&](const AttachPoint &point) {
            return point.is_expensive &&
                   std::ranges::find(refused, point.file_offset) == refused.end();
        }));
    return set;
}

}  // namespace gpusnoop::ebpf
