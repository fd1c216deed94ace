// Attaches to functions of the kernel, to tracepoints, and to each CPU's clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/libbpf.h"

struct bpf_program;

namespace gpusnoop::ebpf {

// Success, or why this machine has no kprobes.
[[nodiscard]] Result<> check_kprobes();

// The size of a kernel thread's stack, for kernel_stack_bytes in bpf/lib/kcall.bpf.h.
[[nodiscard]] std::uint64_t kernel_stack_bytes();

struct KprobePoint {
    std::string function;  // its symbol
    std::uint64_t cookie;
};

// Can this kernel attach to its functions by links (kprobe.multi, with CONFIG_FPROBE)? These need
// CAP_PERFMON alone, where perf events need CAP_SYS_ADMIN on Debian's and Ubuntu's kernels.
[[nodiscard]] bool has_kprobe_links();

// What bpf/lib/kcall.bpf.h makes for a probe: a program for each end, by perf event and by link.
struct KprobePrograms {
    bpf_program *enter;
    bpf_program *leave;
    bpf_program *link_in;
    bpf_program *link_out;
};

// Before they are loaded: leaves out those for links where the kernel has none.
void choose_kprobe_programs(const KprobePrograms &programs);

// Attached functions. Detaches when destroyed, or when the process ends in any way.
class KprobeSet {
public:
    // Attaches to the function's return, then to its entry: both or none. By perf events, or by
    // links where perf events are not permitted.
    Result<> attach(const KprobePrograms &programs, const KprobePoint &point);

    [[nodiscard]] std::size_t functions() const { return links_.size() / 2; }

private:
    Result<> attach_by_link(const KprobePrograms &programs, const KprobePoint &point);
    void add(Link at_return, Link at_entry);

    std::vector<Link> links_;
};

struct TracepointField {
    std::uint32_t offset = 0;
    std::uint32_t size = 0;
};

using TracepointFields = std::map<std::string, TracepointField, std::less<>>;

// Parses the text of a tracepoint's file `format`; skips lines that describe no field.
[[nodiscard]] TracepointFields parse_tracepoint_format(std::string_view text);

// What mounts tracefs, for messages.
constexpr std::string_view mount_tracefs = "mount -t tracefs tracefs /sys/kernel/tracing";

// As the running kernel describes it, from tracefs, which is mounted at one of the two usual
// places. Unsupported if the kernel has no such tracepoint or no tracefs, or if tracefs is not
// mounted; EACCES if it cannot be read.
[[nodiscard]] Result<TracepointFields> tracepoint_fields(const std::string &category,
                                                         const std::string &name);

struct CpuEvent {
    std::uint64_t config = 0;     // PERF_COUNT_SW_...
    std::uint32_t frequency = 0;  // in Hz; 0: at every event
};

// A link for each CPU that is online. Needs CAP_PERFMON.
[[nodiscard]] Result<std::vector<Link>> run_at_cpu_events(const bpf_program *program,
                                                          const CpuEvent &event);

}  // namespace gpusnoop::ebpf
