#include "exporter/ebpf/attach/kprobe.h"

#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "exporter/base/unsupported.h"
#include "exporter/ebpf/libbpf.h"

namespace gpusnoop::ebpf {

namespace {

Result<Link> link_one(const bpf_program *program, const KprobePoint &point, bool at_return) {
    LIBBPF_OPTS(bpf_kprobe_opts, options);
    options.bpf_cookie = point.cookie;
    options.retprobe = at_return;
    Link link(bpf_program__attach_kprobe_opts(program, point.function.c_str(), &options));
    if (!link && errno == ENOENT) {
        return fail_unsupported("this kernel has no function " + point.function);
    }
    if (!link) {
        return fail_errno("attach a kprobe to " + point.function);
    }
    return link;
}

}  // namespace

bool has_kprobe_links() {
    return has_type("bpf_kprobe_multi_link");
}

void choose_kprobe_programs(const KprobePrograms &programs) {
    for (bpf_program *program : {programs.link_in, programs.link_out}) {
        bpf_program__set_autoload(program, has_kprobe_links());
    }
}

Result<> check_kprobes() {
    if (!has_kprobe_links() && ::access("/sys/bus/event_source/devices/kprobe/type", R_OK) != 0) {
        return fail_unsupported(
            "this kernel has no kprobes: one with CONFIG_KPROBE_EVENTS is needed");
    }
    return {};
}

std::uint64_t kernel_stack_bytes() {
    // THREAD_SIZE of x86_64, and of arm64, where it is at least a page.
    constexpr std::uint64_t least = 16'384;
    return std::max(least, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

Result<> KprobeSet::attach(const KprobePrograms &programs, const KprobePoint &point) {
    // The return first, as in UprobeSet::attach().
    auto at_return = link_one(programs.leave, point, true);
    auto at_entry = at_return ? link_one(programs.enter, point, false)
                              : Result<Link>(tl::unexpected(at_return.error()));
    if (at_entry) {
        add(std::move(*at_return), std::move(*at_entry));
        return {};
    }
    const Error &error = at_entry.error();
    const bool is_forbidden = error.code == EACCES || error.code == EPERM;
    if (is_forbidden && bpf_program__autoload(programs.link_in)) {
        return attach_by_link(programs, point);
    }
    return tl::unexpected(error);
}

// Fails where the kernel cannot trace the function so: it is assembly, or before Linux 6.2 in a
// module.
Result<> KprobeSet::attach_by_link(const KprobePrograms &programs, const KprobePoint &point) {
    const char *name = point.function.c_str();
    const __u64 cookie = point.cookie;
    LIBBPF_OPTS(bpf_kprobe_multi_opts, options);
    options.syms = &name;
    options.cookies = &cookie;
    options.cnt = 1;
    options.retprobe = true;
    Link at_return(bpf_program__attach_kprobe_multi_opts(programs.link_out, nullptr, &options));
    options.retprobe = false;
    Link at_entry(at_return
                      ? bpf_program__attach_kprobe_multi_opts(programs.link_in, nullptr, &options)
                      : nullptr);
    if (!at_entry) {
        return fail_errno("attach to " + point.function + " by a link");
    }
    add(std::move(at_return), std::move(at_entry));
    return {};
}

void KprobeSet::add(Link at_return, Link at_entry) {
    links_.push_back(std::move(at_return));
    links_.push_back(std::move(at_entry));
}

}  // namespace gpusnoop::ebpf
