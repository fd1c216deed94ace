// Seeing the ends of CUDA's functions without return probes: `cuda: {endings: exits}`.
#pragma once

#include <span>
#include <vector>

#include "exporter/discovery/library.h"
#include "exporter/ebpf/uprobe.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

// The exits of the functions that begin at `points`, which are among `found`. A function whose
// result is not seen at its exits is taken out of `points`, and the log names it: it has an exit
// that is a jump to a function that is not traced, or its code cannot be decoded. One that only
// jumps to traced functions is taken out as well, as its calls count as theirs.
[[nodiscard]] std::vector<ebpf::AttachPoint> see_ends_at_exits(
    const symbols::ElfFile &elf, const discovery::Library &library,
    std::span<const symbols::FoundFunction> found, std::vector<ebpf::AttachPoint> &points);

}  // namespace gpusnoop::probes
