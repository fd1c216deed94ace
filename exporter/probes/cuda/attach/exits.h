// Finds the ends of CUDA's functions without return probes: `cuda: {endings: exits}`.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

// The exits of the functions that begin at `points`, which are among `found`. A function is removed
// from `points`, and the log names it, if its result is not seen at its exits: one of them is a
// jump to a function that is not traced, or its code cannot be decoded. A function that only jumps
// to traced functions is also removed, as its calls count as calls of these.
[[nodiscard]] std::vector<ebpf::AttachPoint> see_ends_at_exits(
    const symbols::ElfFile &elf, const discovery::Library &library,
    std::span<const symbols::FoundFunction> found, std::vector<ebpf::AttachPoint> &points);

// The file offsets of those of `found` that only jump to another one with the same name: that one
// has their calls, for one breakpoint less in each. `found` are functions of cuda_functions() in
// `elf`, which is the library's file.
[[nodiscard]] std::set<std::uint64_t> forwarding_functions(
    const symbols::ElfFile &elf, const discovery::Library &library,
    std::span<const symbols::FoundFunction> found);

}  // namespace gpusnoop::probes
