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

// Is it in effect? CAP_SYS_ADMIN stands for CAP_BPF, CAP_PERFMON and CAP_CHECKPOINT_RESTORE, which
// were once part of it.
[[nodiscard]] bool has_capability(Capability capability);

// The same for that very capability.
[[nodiscard]] bool holds_capability(Capability capability);

// "CAP_BPF", "CAP_BPF and CAP_PERFMON", "CAP_A, CAP_B and CAP_C"; empty for none.
[[nodiscard]] std::string capability_names(std::span<const Capability> capabilities);

[[nodiscard]] std::vector<Capability> missing_capabilities(std::span<const Capability> wanted);

// What a refused system call is told with: when `code` is EPERM or EACCES and some of `wanted` are
// missing, " (CAP_BPF is missing)"; else nothing.
[[nodiscard]] std::string missing_for(int code, std::span<const Capability> wanted);

// Gives up all others for good: they leave the permitted, inheritable, ambient and, where the
// process may change it, the bounding set, and no program that it might run gains any. Returns
// those that were given up. For the calling thread and those that it starts later: call it before
// there are others.
[[nodiscard]] Result<std::vector<Capability>> keep_capabilities(std::span<const Capability> wanted);

}  // namespace gpusnoop
