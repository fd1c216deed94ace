// The system calls that this process gives up, by a filter of seccomp(2).
#pragma once

#include <span>

#include "exporter/base/result.h"

namespace gpusnoop {

// Their names. An exporter has no use for them, and who takes it over has: to run programs, to
// trace others, to mount, to load modules, to enter namespaces, to set the clock.
[[nodiscard]] std::span<const char *const> refused_system_calls();

// From now on they fail with EPERM, in the calling thread and in threads and processes that it
// starts, for good. Needs no_new_privs, as keep_capabilities() sets it, or CAP_SYS_ADMIN. Those
// that this machine does not have are left out.
[[nodiscard]] Result<> refuse_system_calls();

}  // namespace gpusnoop
