// Blocks system calls that this process does not need, with a filter of seccomp(2).
#pragma once

#include <span>

#include "exporter/base/result.h"

namespace gpusnoop {

// Their names. The exporter does not need these calls, but an attacker who takes it over does: they
// run programs, trace other processes, mount, load modules, enter namespaces and set the clock.
[[nodiscard]] std::span<const char *const> refused_system_calls();

// From now on these calls fail with EPERM, permanently, in the calling thread and in threads and
// processes that it starts. Needs no_new_privs, as keep_capabilities() sets it, or CAP_SYS_ADMIN.
// Calls that this machine does not have are skipped.
[[nodiscard]] Result<> refuse_system_calls();

}  // namespace gpusnoop
