// What becomes of a program in which a system call fails that its author never heard of.
#pragma once

#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// Runs `work` in a child process under a seccomp filter that has this system call fail, as those of
// containers do with calls that are newer than they are. The failure says what ended the child.
// Success as well where there are no such filters.
[[nodiscard]] Result<> survives_without(int system_call, void (*work)());

}  // namespace gpusnoop::ebpf
