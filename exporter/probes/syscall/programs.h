// The syscall probe's BPF side: the programs to load and attach, and its tables.
#pragma once

#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/syscall/aggregator.h"
#include "exporter/probes/syscall/settings.h"

struct bpf_program;
struct syscall_bpf;

namespace gpusnoop::probes {

enum class SyscallUse { counts, trace, trace_of_paths };

// Before load. A trace gets a record of each call in the ring, except this process's own calls, and
// its tables stay empty: a struct syscall_record, or with paths a struct syscall_open_record.
Result<> configure_programs(syscall_bpf &skeleton, const SyscallConfig &config, SyscallUse use);

// In the order from a call's end to its beginning, so that the end of every call that has begun is
// seen.
[[nodiscard]] std::vector<const bpf_program *> programs_to_attach(const syscall_bpf &skeleton);

// The skeleton must outlive it.
class SyscallTables {
public:
    SyscallTables() = default;
    static Result<SyscallTables> open(const syscall_bpf &skeleton);

    [[nodiscard]] Result<SyscallReading> read() const;
    // Deletes the entries of a reading for these processes, which have ended.
    void forget(const SyscallReading &reading, const std::vector<ProcessKey> &processes) const;

private:
    int counts_fd_ = -1;
    int errors_fd_ = -1;
    // Null where the kernel allows no such programs: then whole maps are read.
    ebpf::Link list_counts_;
    ebpf::Link list_errors_;
};

}  // namespace gpusnoop::probes
