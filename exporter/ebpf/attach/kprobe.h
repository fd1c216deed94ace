// Attaching BPF programs to functions of the kernel and of its modules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/attach/link.h"

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

}  // namespace gpusnoop::ebpf
