#include "exporter/probes/syscall/settings.h"

#include <utility>

#include "exporter/config/reader.h"
#include "exporter/probes/syscall/choice.h"

namespace gpusnoop::probes {

void read_syscall(config::Section syscall, config::Config &config) {
    SyscallConfig value;
    syscall.boolean("enabled", value.enabled);
    syscall.texts("syscalls", "names of system calls", value.syscalls, syscall_problem);
    syscall.integer("max_counts", value.max_counts, 64, 1U << 22U);
    syscall.finish();
    config.set(std::move(value));
}

}  // namespace gpusnoop::probes
