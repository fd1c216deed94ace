// The block `syscall:` of the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct SyscallConfig {
    bool enabled = false;
    std::vector<std::string> syscalls;  // names and groups; empty is all
    std::uint32_t max_counts = 32'768;  // entries of the table of counts in the kernel
    bool operator==(const SyscallConfig &) const = default;
};

void read_syscall(config::Section syscall, config::Config &config);

// The problem with the name of a system call or of a group of them; "" if there is none.
[[nodiscard]] std::string syscall_problem(const std::string &name);

}  // namespace gpusnoop::probes
