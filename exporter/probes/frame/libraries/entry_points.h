// Puts the probes on the entries of functions where they cost the least.
#pragma once

#include <span>
#include <vector>

#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

// Moves each of `points`, which are at the first instructions of `functions`, to the instruction
// that symbols::find_entry_probes() chooses, and notes which ones are expensive there. `fd` is the
// file that `elf` was opened with.
void use_cheapest_entries(const symbols::ElfFile &elf, int fd,
                          std::span<const symbols::FoundFunction> functions,
                          std::vector<ebpf::AttachPoint> &points);

}  // namespace gpusnoop::probes
