#include "exporter/kernel/uprobe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "exporter/base/capabilities.h"

namespace gpusnoop::kernel {

namespace {

std::string path_of(int fd) {
    return "/proc/self/fd/" + std::to_string(fd);
}

// One link for many functions. libbpf 1.4's own wrapper does not know sessions, so this is the
// system call; `flags` are BPF_F_UPROBE_MULTI_*.
Result<Fd> link_multi(const bpf_program *program, int type, int file_fd,
                      const std::vector<AttachPoint> &points, std::uint32_t flags) {
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint64_t> cookies;
    for (const AttachPoint &point : points) {
        offsets.push_back(point.file_offset);
        cookies.push_back(point.cookie);
    }
    const std::string path = path_of(file_fd);
    bpf_attr attr{};
    attr.link_create.prog_fd = static_cast<std::uint32_t>(bpf_program__fd(program));
    attr.link_create.attach_type = static_cast<std::uint32_t>(type);
    attr.link_create.uprobe_multi.path = reinterpret_cast<std::uint64_t>(path.c_str());
    attr.link_create.uprobe_multi.offsets = reinterpret_cast<std::uint64_t>(offsets.data());
    attr.link_create.uprobe_multi.cookies = reinterpret_cast<std::uint64_t>(cookies.data());
    attr.link_create.uprobe_multi.cnt = static_cast<std::uint32_t>(offsets.size());
    attr.link_create.uprobe_multi.flags = flags;
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

Result<Link> link_perf(const bpf_program *program, int file_fd, const AttachPoint &point,
                       bool at_return) {
    LIBBPF_OPTS(bpf_uprobe_opts, options);
    options.retprobe = at_return;
    options.bpf_cookie = point.cookie;
    Link link(bpf_program__attach_uprobe_opts(program, -1, path_of(file_fd).c_str(),
                                              point.file_offset, &options));
    if (!link) {
        const int code = errno;
        const std::array<Capability, 1> needed = {CAP_SYS_ADMIN};
        return fail(
            "attach a perf uprobe: " + std::string(std::strerror(code)) + missing_for(code, needed),
            code);
    }
    return link;
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

UprobeSet UprobeSet::adopt(std::vector<Fd> links, std::size_t functions) {
    UprobeSet set;
    set.multi_links_ = std::move(links);
    set.functions_ = functions;
    return set;
}

std::vector<int> UprobeSet::links() const {
    std::vector<int> links;
    for (const Fd &link : multi_links_) {
        links.push_back(link.get());
    }
    for (const Link &link : perf_links_) {
        links.push_back(bpf_link__fd(link.get()));
    }
    return links;
}

Result<> UprobeSet::link_all(const bpf_program *program, AttachMode mode, int file_fd,
                             const std::vector<AttachPoint> &points, bool at_return) {
    std::vector<AttachPoint> wanted;
    std::ranges::copy_if(points, std::back_inserter(wanted), [&](const AttachPoint &point) {
        return !(at_return && point.entry_only);
    });
    if (wanted.empty()) {
        return {};
    }
    if (mode != AttachMode::perf) {
        auto link = link_multi(
            program, mode == AttachMode::session ? uprobe_session_type : uprobe_multi_type, file_fd,
            wanted, at_return ? BPF_F_UPROBE_MULTI_RETURN : 0);
        if (!link) {
            return tl::unexpected(link.error());
        }
        multi_links_.push_back(std::move(*link));
        return {};
    }
    for (const AttachPoint &point : wanted) {
        auto link = link_perf(program, file_fd, point, at_return);
        if (!link) {
            return tl::unexpected(link.error());
        }
        perf_links_.push_back(std::move(*link));
    }
    return {};
}

Result<UprobeSet> UprobeSet::attach(const CallPrograms &programs, int file_fd,
                                    const std::vector<AttachPoint> &points,
                                    const std::vector<AttachPoint> &exits) {
    UprobeSet set;
    set.functions_ = points.size();
    const bool is_perf = programs.mode == AttachMode::perf;
    // The ends first: a return without an entry is counted as such and harmless, while an entry
    // without a return would look like a call that never ends.
    auto linked = set.link_all(programs.exit, is_perf ? AttachMode::perf : AttachMode::multi,
                               file_fd, exits, false);
    if (linked && programs.mode != AttachMode::session) {
        linked = set.link_all(programs.leave, programs.mode, file_fd, points, true);
    }
    if (linked) {
        linked = set.link_all(programs.enter, programs.mode, file_fd, points, false);
    }
    if (!linked) {
        return tl::unexpected(linked.error());
    }
    return set;
}

}  // namespace gpusnoop::kernel
