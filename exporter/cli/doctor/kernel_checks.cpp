#include "exporter/cli/doctor/checks.h"

#include <bpf/btf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "exporter/base/fd.h"
#include "exporter/base/read_file.h"
#include "exporter/base/result.h"
#include "exporter/base/text/text.h"
#include "exporter/ebpf/attach/kernel_hooks.h"
#include "exporter/probes/frame/registry.h"

namespace gpusnoop::doctor {

namespace {

using ebpf::AttachMode;

std::optional<std::string> setting(const std::string &path) {
    auto text = read_start(path, 256);
    if (!text) {
        return std::nullopt;
    }
    while (text->ends_with('\n')) {
        text->pop_back();
    }
    return *text;
}

bool is_available(const ebpf::Features &features, std::string_view name) {
    const ebpf::Feature *feature = features.find(name);
    return feature != nullptr && feature->available;
}

std::string found(const ebpf::Features &features, std::string_view name) {
    const ebpf::Feature *feature = features.find(name);
    return is_available(features, name)
               ? "works"
               : "does not work (" + (feature ? feature->reason : "") + ")";
}

Finding needed(const ebpf::Features &features, std::string_view name, std::string costs) {
    const bool works = is_available(features, name);
    return {std::string(name), works ? Verdict::ok : Verdict::fail, found(features, name),
            works ? "" : std::move(costs)};
}

// An attach mode that does not work matters only if no better mode works.
Finding attach_way(const ebpf::Features &features, AttachMode mode, bool has_better,
                   std::string costs) {
    const std::string name = "uprobe_" + std::string(to_string(mode));
    const bool works = is_available(features, name);
    const bool matters = !works && !has_better;
    return {name, matters ? Verdict::warn : Verdict::ok,
            found(features, name) + (works || matters ? "" : ", and is not needed"),
            matters ? std::move(costs) : ""};
}

// The modes that the configuration names.
void check_wanted(const ebpf::Features &features, const std::string &key, ebpf::Attach attach,
                  std::vector<Finding> &findings) {
    if (attach == ebpf::Attach::automatic) {
        return;
    }
    const AttachMode mode = ebpf::attach_modes(attach, features).front();
    const bool works = is_available(features, "uprobe_" + std::string(to_string(mode)));
    findings.push_back(
        {key, works ? Verdict::ok : Verdict::fail,
         std::string(to_string(mode)) + (works ? ", which works" : ", which does not work"),
         works ? "" : "the probe attaches to nothing",
         works ? "" : key + ": auto, which selects a mode that works"});
}

using Btf = std::unique_ptr<btf, decltype([](btf *types) { btf__free(types); })>;

bool knows(const Btf &types, const char *name, std::uint32_t kind) {
    return types && btf__find_by_name_kind(types.get(), name, kind) > 0;
}

Finding tracepoint(const Btf &types, const char *name, const char *type, std::string costs) {
    const bool is_there = knows(types, type, BTF_KIND_TYPEDEF);
    return {name, is_there ? Verdict::ok : Verdict::warn,
            is_there ? "this kernel has it" : "this kernel lacks it",
            is_there ? "" : std::move(costs)};
}

// Its records have to be described by tracefs, too.
Finding dma_fence(const Btf &types) {
    Finding finding = tracepoint(types, "dma_fence", "btf_trace_dma_fence_signaled",
                                 "DMA fences of DRM drivers cannot be traced");
    if (finding.verdict != Verdict::ok) {
        return finding;
    }
    const auto fields = ebpf::tracepoint_fields("dma_fence", "dma_fence_init");
    if (!fields) {
        finding.verdict = Verdict::warn;
        finding.found = fields.error().message;
        finding.costs = is_unsupported(fields.error()) ? "the probe fence is unsupported"
                                                       : "the probe fence fails";
        const bool can_mount = finding.found.find(ebpf::mount_tracefs) != std::string::npos;
        finding.remedy = (can_mount ? std::string(ebpf::mount_tracefs) + ", or " : "") +
                         "fence: {enabled: false}";
    }
    return finding;
}

// By links, as the exporter does where it can: bpf/lib/kcall.bpf.h.
Result<> try_kprobe() {
    if (ebpf::has_kprobe_links() && has_capability(CAP_PERFMON)) {
        return {};
    }
    const auto text = setting("/sys/bus/event_source/devices/kprobe/type");
    std::uint32_t type = 0;
    if (!text ||
        std::from_chars(text->data(), text->data() + text->size(), type).ec != std::errc{}) {
        return fail("the kernel is built without them", ENOENT);
    }
    static constexpr const char *function = "kernel_clone";
    perf_event_attr attr{};
    attr.size = sizeof(attr);
    attr.type = type;
    attr.disabled = 1;
    attr.config1 = reinterpret_cast<std::uint64_t>(function);
    const Fd event(
        static_cast<int>(::syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)));
    if (!event) {
        const int code = errno;
        const Capability perfmon = CAP_PERFMON;
        return fail(std::strerror(code) + missing_for(code, {&perfmon, 1}), code);
    }
    return {};
}

// "the probes A and B "
std::string probes_with_kprobes() {
    std::string names;
    for (const probes::ProbeKind *kind : probes::all_probes()) {
        if (kind->needs_kprobes) {
            names += (names.empty() ? "the probes " : " and ") + std::string(kind->name);
        }
    }
    return names + " ";
}

Finding kprobes() {
    const auto tried = try_kprobe();
    return {
        "kprobes", tried ? Verdict::ok : Verdict::warn,
        tried ? "work" : "do not work (" + tried.error().message + ")",
        tried
            ? ""
            : probes_with_kprobes() + (tried.error().code == ENOENT ? "are unsupported" : "fail") +
                  ": calls inside the kernel, such as PCI configuration accesses, cannot be traced",
        tried ? ""
              : "a kernel with CONFIG_KPROBE_EVENTS; or pcie: {enabled: false} and nvlink: "
                "{enabled: false}"};
}

Finding kernel_version() {
    utsname name{};
    ::uname(&name);
    return {"kernel", Verdict::ok,
            std::string(name.sysname) + " " + name.release + " " + name.machine, ""};
}

}  // namespace

std::vector<Finding> judge_features(const ebpf::Features &features, const config::Config &config) {
    std::vector<Finding> findings;
    findings.push_back(
        needed(features, "btf",
               "nothing can be traced: a kernel built with CONFIG_DEBUG_INFO_BTF is needed"));
    findings.push_back(needed(features, "ring_buffer",
                              "nothing can be traced: Linux 5.15 and CAP_BPF are needed"));
    findings.push_back(needed(features, "kernel_reads",
                              "nothing can be traced: CAP_BPF and CAP_PERFMON are needed, and a "
                              "kernel that is not locked down for confidentiality"));
    const auto works = features.attach_modes();
    const auto has = [&](AttachMode mode) { return std::ranges::find(works, mode) != works.end(); };
    findings.push_back(
        attach_way(features, AttachMode::session, false,
                   "a traced call costs two traps instead of one (available since Linux 6.13)"));
    findings.push_back(attach_way(features, AttachMode::multi, has(AttachMode::session),
                                  "attaching needs a perf event for each function, and "
                                  "CAP_SYS_ADMIN (available since Linux 6.6)"));
    findings.push_back(attach_way(features, AttachMode::perf,
                                  has(AttachMode::session) || has(AttachMode::multi),
                                  "no other way to attach to functions is left"));
    if (features.find("uretprobe_seccomp") != nullptr) {
        const bool is_harmless = features.has_harmless_return_probes();
        findings.push_back(
            {"uretprobe_seccomp", is_harmless ? Verdict::ok : Verdict::warn,
             is_harmless ? "return probes do no harm to programs under seccomp"
                         : found(features, "uretprobe_seccomp"),
             is_harmless ? ""
                         : "return probes would kill programs in containers, so the exporter "
                           "probes exits instead: this costs one more trap per call, and does not "
                           "work for all functions",
             is_harmless ? "" : "use Linux 6.14 or later, or a later release of 6.12 or 6.13"});
    }
    if (works.empty()) {
        findings.push_back(
            {"attach", Verdict::fail, "no way to attach to functions works", "nothing is traced"});
    }
    for (const probes::ProbeKind *const kind : probes::all_probes()) {
        if (const auto attach = kind->attach == nullptr ? std::nullopt : kind->attach(config)) {
            check_wanted(features, std::string(kind->name) + ".attach", *attach, findings);
        }
    }
    return findings;
}

Finding judge_lockdown(const std::optional<std::string> &file) {
    Finding finding{"lockdown", Verdict::ok, "", ""};
    if (!file) {
        finding.found = "unknown: /sys/kernel/security/lockdown cannot be read";
        return finding;
    }
    const std::size_t begin = file->find('[');
    const std::size_t end = file->find(']', begin);
    finding.found = begin == std::string::npos || end == std::string::npos
                        ? *file
                        : file->substr(begin + 1, end - begin - 1);
    if (finding.found == "confidentiality") {
        finding.verdict = Verdict::fail;
        finding.costs = "nothing can be traced, because BPF programs may not read kernel memory";
        finding.remedy = "boot with lockdown=integrity, or without lockdown";
    }
    return finding;
}

Finding judge_unprivileged_bpf(const std::optional<std::string> &file, bool has_bpf) {
    return {"kernel.unprivileged_bpf_disabled", Verdict::ok,
            file.value_or("not there") + (has_bpf ? ", which has no effect with CAP_BPF"
                                                  : "; CAP_BPF is needed in any case"),
            ""};
}

Finding judge_perf_paranoid(const std::optional<std::string> &file, bool has_perfmon,
                            bool has_admin) {
    const long level = file ? std::strtol(file->c_str(), nullptr, 10) : 0;
    const std::string name = "kernel.perf_event_paranoid";
    const std::string found = file.value_or("not there");
    // Only distributions' kernels have these values; they require more than CAP_PERFMON.
    if (level > 2 && !has_admin) {
        return {name, Verdict::warn, found,
                "above 2, Debian's and Ubuntu's kernels require CAP_SYS_ADMIN: without it, sampled "
                "profiles fail, and so do probes on kernel functions if links are unavailable "
                "(before Linux 5.18, and in modules before 6.2)",
                "sysctl -w kernel.perf_event_paranoid=2, or grant CAP_SYS_ADMIN"};
    }
    const bool is_fine = has_perfmon || level < 0;
    return {name, is_fine ? Verdict::ok : Verdict::warn,
            found + (has_perfmon ? ", which has no effect with these capabilities" : ""),
            is_fine ? ""
                    : "without CAP_PERFMON, mapping events need the value -1; otherwise only the "
                      "rescan finds new processes"};
}

std::vector<Finding> examine_kernel(const ebpf::Features &features, const config::Config &config) {
    const bool has_bpf = has_capability(CAP_BPF);
    const bool has_perfmon = has_capability(CAP_PERFMON);
    std::vector<Finding> findings = {kernel_version()};
    for (Finding &finding : judge_features(features, config)) {
        findings.push_back(std::move(finding));
    }
    const Btf types(btf__load_vmlinux_btf());
    const bool is_guarded = knows(types, "bpf_preempt_disable", BTF_KIND_FUNC);
    findings.push_back({"bpf_preempt_disable", Verdict::ok,
                        is_guarded ? "this kernel has it"
                                   : "this kernel lacks it (available since Linux 6.10): BPF "
                                     "programs can be preempted, and are small enough for that",
                        ""});
    findings.push_back(kprobes());
    findings.push_back(
        tracepoint(types, "raw_syscalls", "btf_trace_sys_enter", "system calls cannot be counted"));
    findings.push_back(dma_fence(types));
    for (Finding &finding : examine_probes(config)) {
        findings.push_back(std::move(finding));
    }
    findings.push_back(judge_lockdown(setting("/sys/kernel/security/lockdown")));
    findings.push_back(
        judge_unprivileged_bpf(setting("/proc/sys/kernel/unprivileged_bpf_disabled"), has_bpf));
    findings.push_back(judge_perf_paranoid(setting("/proc/sys/kernel/perf_event_paranoid"),
                                           has_perfmon, has_capability(CAP_SYS_ADMIN)));
    return findings;
}

}  // namespace gpusnoop::doctor
