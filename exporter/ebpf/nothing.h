// The least programs: to find out what the kernel allows, or for what attaching them does.
#pragma once

#include <bpf/bpf.h>

#include <cstdint>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

Result<Fd> load_nothing(bpf_prog_type type, int expected_attach_type);

// Attaches it, loaded with this type, as a uprobe.multi; `flags` are BPF_F_UPROBE_MULTI_*, and
// `only_tgid` is the process, 0 for all. It is attached as long as the link is open. The failure's
// code is the kernel's errno.
Result<Fd> link_nothing(int program, int attach_type, int file, std::uint64_t offset,
                        std::uint32_t flags = 0, int only_tgid = 0);

// The offset in the program's file of the code at `address`, by the loader's program headers. 0:
// the address is in no segment.
[[nodiscard]] std::uint64_t file_offset(std::uintptr_t address);

}  // namespace gpusnoop::ebpf
