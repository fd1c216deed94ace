#include "exporter/ebpf/kprobe.h"

#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "exporter/base/unsupported.h"

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

Result<> check_kprobes() {
    if (::access("/sys/bus/event_source/devices/kprobe/type", R_OK) != 0) {
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

Result<> KprobeSet::attach(const bpf_program *enter, const bpf_program *leave,
                           const KprobePoint &point) {
    // The return first, as in UprobeSet::attach().
    auto at_return = link_one(leave, point, true);
    if (!at_return) {
        return tl::unexpected(at_return.error());
    }
    auto at_entry = link_one(enter, point, false);
    if (!at_entry) {
        return tl::unexpected(at_entry.error());
    }
    links_.push_back(std::move(*at_return));
    links_.push_back(std::move(*at_entry));
    return {};
}

}  // namespace gpusnoop::ebpf
