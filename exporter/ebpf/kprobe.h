// Attaching BPF programs to functions of the kernel and of its modules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/link.h"

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

// Attached functions. Detaches when destroyed, or when the process ends in any way.
class KprobeSet {
public:
    // Attaches to the function's return, then to its entry: both or none.
    Result<> attach(const bpf_program *enter, const bpf_program *leave, const KprobePoint &point);

    [[nodiscard]] std::size_t functions() const { return links_.size() / 2; }

private:
    std::vector<Link> links_;
};

}  // namespace gpusnoop::ebpf
