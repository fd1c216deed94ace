// What this process may do: its capabilities, and the system calls that it refuses itself.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exporter/base/result.h"

namespace gpusnoop {

using Capability = int;  // CAP_BPF and the others of linux/capability.h

// "CAP_BPF", as manuals and units write it.
[[nodiscard]] std::string capability_name(Capability capability);

// Whether it is in effect. CAP_SYS_ADMIN includes CAP_BPF, CAP_PERFMON and CAP_CHECKPOINT_RESTORE,
// which were once part of it.
[[nodiscard]] bool has_capability(Capability capability);

// The same for exactly this capability.
[[nodiscard]] bool holds_capability(Capability capability);

// "CAP_BPF", "CAP_BPF and CAP_PERFMON", "CAP_A, CAP_B and CAP_C"; empty for none.
[[nodiscard]] std::string capability_names(std::span<const Capability> capabilities);

[[nodiscard]] std::vector<Capability> missing_capabilities(std::span<const Capability> wanted);

// A hint for the error message of a refused system call: " (CAP_BPF is missing)" if `code` is EPERM
// or EACCES and some of `wanted` are missing; else empty.
[[nodiscard]] std::string missing_for(int code, std::span<const Capability> wanted);

// Gives up all other capabilities permanently: they leave the permitted, inheritable, ambient and,
// where the process may change it, the bounding set, and no program that it runs gains any. Returns
// the capabilities given up. Applies to the calling thread and to threads that it starts later:
// call it before other threads exist.
[[nodiscard]] Result<std::vector<Capability>> keep_capabilities(std::span<const Capability> wanted);

// System calls that the exporter does not need, but an attacker who takes it over does: they run
// programs, trace other processes, mount, load modules, enter namespaces and set the clock. From
// now on they fail with EPERM, permanently, in the calling thread and in threads and processes that
// it starts. Needs no_new_privs, as keep_capabilities() sets it, or CAP_SYS_ADMIN. Calls that this
// machine does not have are skipped.
[[nodiscard]] Result<> refuse_system_calls();

}  // namespace gpusnoop
