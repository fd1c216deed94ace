// Tests how a program ends if a system call that its author did not know of fails.
#pragma once

#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// Runs `work` in a child process under a seccomp filter that makes this system call fail, as
// containers' filters do with calls newer than themselves. The failure says how the child ended.
// Also succeeds where such filters do not exist.
[[nodiscard]] Result<> survives_without(int system_call, void (*work)());

}  // namespace gpusnoop::ebpf
