// Warns of programs in a sandbox that handles their system calls instead of the kernel: since Linux
// 6.11, the return probe of x86_64 is a system call, which such a sandbox does not know.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// Used by the aggregating thread.
class SandboxWarnings {
public:
    // The number of program names that are remembered. Further ones are not logged.
    static constexpr std::size_t max_names = 100;

    explicit SandboxWarnings(std::string probe) : probe_(std::move(probe)) {}

    // Call this at a process's first traced call. The log has one line for each program name.
    void look(const ProcessIdentity &process);

private:
    std::string probe_;
    std::set<std::string> said_;  // logged names
};

}  // namespace gpusnoop::probes
