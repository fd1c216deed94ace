// Programs that run under something that answers their system calls in the kernel's place: since
// Linux 6.11, the return probe of x86_64 is a system call, which such a sandbox does not know.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "exporter/probes/frame/process_identity.h"

namespace gpusnoop::probes {

// Used by the aggregating thread.
class SandboxWarnings {
public:
    // Names of programs that are remembered. Of more, the log says nothing.
    static constexpr std::size_t max_names = 100;

    explicit SandboxWarnings(std::string probe) : probe_(std::move(probe)) {}

    // A process has made its first traced call. The log has a line for each name of a program.
    void look(const ProcessIdentity &process);

private:
    std::string probe_;
    std::set<std::string> said_;  // names
};

}  // namespace gpusnoop::probes
