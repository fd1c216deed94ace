#include "exporter/ebpf/attach/kernel_hooks.h"

#include <bpf/libbpf.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "exporter/base/fd.h"

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

namespace {

// The number after "<key>:" in a line such as "field:int pid;\toffset:4;\tsize:4;\tsigned:1;".
std::optional<std::uint32_t> number_of(std::string_view line, std::string_view key) {
    const std::size_t at = line.find(key);
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view rest = line.substr(at + key.size());
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    return error == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

TracepointFields parse_tracepoint_format(std::string_view text) {
    TracepointFields fields;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const std::size_t begin = line.find("field:");
        const std::size_t end = line.find(';');
        const auto offset = number_of(line, "offset:");
        const auto size = number_of(line, "size:");
        if (begin == std::string_view::npos || end == std::string_view::npos || end < begin ||
            !offset || !size) {
            continue;
        }
        std::string_view declaration = line.substr(begin + 6, end - begin - 6);
        declaration = declaration.substr(0, declaration.find('[', declaration.rfind(' ') + 1));
        fields.insert_or_assign(std::string(declaration.substr(declaration.rfind(' ') + 1)),
                                TracepointField{*offset, *size});
    }
    return fields;
}

Result<TracepointFields> tracepoint_fields(const std::string &category, const std::string &name) {
    const std::string tracepoint = category + ":" + name;
    const auto exists = [](const std::string &path) { return ::access(path.c_str(), F_OK) == 0; };
    for (const std::string root : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
        const std::string path = root + "/events/" + category + "/" + name + "/format";
        std::ifstream file(path);
        std::stringstream text;
        if (file && text << file.rdbuf()) {
            return parse_tracepoint_format(text.str());
        }
        if (exists(path)) {
            return fail("the tracepoint " + tracepoint + " cannot be read: " + path, EACCES);
        }
        if (exists(root + "/events")) {
            return fail_unsupported("this kernel has no tracepoint " + tracepoint);
        }
    }
    // The kernel makes this directory if it has tracefs.
    if (!exists("/sys/kernel/tracing")) {
        return fail_unsupported("this kernel has no tracefs, and so no tracepoint " + tracepoint);
    }
    if (struct statfs status{};
        ::statfs("/sys/kernel/tracing", &status) == 0 && status.f_type == TRACEFS_MAGIC) {
        return fail("the tracepoint " + tracepoint +
                        " cannot be found: tracefs cannot be read at /sys/kernel/tracing",
                    EACCES);
    }
    return fail_unsupported("tracefs is not mounted: " + std::string(mount_tracefs));
}

Result<std::vector<Link>> run_at_cpu_events(const bpf_program *program, const CpuEvent &event) {
    perf_event_attr attr{};
    attr.size = sizeof(attr);
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = event.config;
    attr.freq = event.frequency != 0 ? 1 : 0;
    if (attr.freq != 0) {
        attr.sample_freq = event.frequency;
    } else {
        attr.sample_period = 1;
    }
    std::vector<Link> links;
    const auto cpus = possible_cpus();
    if (!cpus) {
        return tl::unexpected(cpus.error());
    }
    for (int cpu = 0; cpu < static_cast<int>(*cpus); cpu++) {
        Fd fd(static_cast<int>(
            ::syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
        if (!fd && errno == ENODEV) {
            continue;  // offline
        }
        if (!fd && (errno == EACCES || errno == EPERM)) {
            return fail(
                "perf events are refused: they need CAP_PERFMON, or CAP_SYS_ADMIN where the sysctl "
                "kernel.perf_event_paranoid is above 2",
                errno);
        }
        if (!fd) {
            return fail_errno("open a perf event on CPU " + std::to_string(cpu));
        }
        Link link(bpf_program__attach_perf_event(program, fd.get()));
        if (!link) {
            return fail_errno("attach to a perf event");
        }
        (void)fd.release();  // the link closes it
        links.push_back(std::move(link));
    }
    return links;
}

}  // namespace gpusnoop::ebpf
