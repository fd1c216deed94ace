// The capabilities of this process, as capabilities(7) has them.
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

}  // namespace gpusnoop
