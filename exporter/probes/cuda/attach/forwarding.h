// CUDA functions that need no probe of their own.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "exporter/discovery/library.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

// The file offsets of those of `found` that only jump to another one with the same name: that one
// has their calls, for one breakpoint less in each. `found` are functions of cuda_functions() in
// `elf`, which is the library's file.
[[nodiscard]] std::set<std::uint64_t> forwarding_functions(
    const symbols::ElfFile &elf, const discovery::Library &library,
    std::span<const symbols::FoundFunction> found);

}  // namespace gpusnoop::probes
