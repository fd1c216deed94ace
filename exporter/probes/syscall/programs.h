// The syscall probe's BPF side: which programs it loads and attaches, and its tables.
#pragma once

#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/link.h"
#include "exporter/probes/frame/process_identity.h"
#include "exporter/probes/syscall/aggregator.h"
#include "exporter/probes/syscall/settings.h"

struct bpf_program;
struct syscall_bpf;

namespace gpusnoop::probes {

// Before load. A trace has a struct syscall_record of each call in the ring, but for this process's
// own, and its tables stay empty.
void configure_programs(syscall_bpf &skeleton, const SyscallConfig &config, bool is_trace);

// From a call's end to its beginning: what has begun then has its end seen.
[[nodiscard]] std::vector<const bpf_program *> programs_to_attach(const syscall_bpf &skeleton);

// The skeleton must outlive it.
class SyscallTables {
public:
    SyscallTables() = default;
    static Result<SyscallTables> open(const syscall_bpf &skeleton);

    [[nodiscard]] Result<SyscallReading> read() const;
    // Deletes what a reading has of these processes, which have ended.
    void forget(const SyscallReading &reading, const std::vector<ProcessKey> &processes) const;

private:
    int counts_fd_ = -1;
    int errors_fd_ = -1;
    ebpf::Link list_counts_;
    ebpf::Link list_errors_;
};

}  // namespace gpusnoop::probes
