// Functions that only jump to another one and pass on all that they got: the arguments, the return
// address and the stack pointer. A probe on the other one sees the same calls, for one breakpoint
// less in each. CUDA 13's __cudaLaunchKernel is such a function, which <<<>>> calls: it makes a
// frame, drops it again, and jumps to cudaLaunchKernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::symbols {

// The vaddr that the function whose first bytes are `code`, the first of them at `vaddr`, only
// jumps to; for EM_X86_64 or EM_AARCH64. No value if it does anything else.
[[nodiscard]] std::optional<std::uint64_t> forwarded_to(std::span<const std::byte> code,
                                                        std::uint64_t vaddr, std::uint16_t machine);

// For each of `functions` of `file`, which was opened with `fd`: the file offset of the one of them
// that it only jumps to; no value for all others. Jumps by a linkage table are not followed, as
// they may go to another file.
[[nodiscard]] std::vector<std::optional<std::uint64_t>> find_forwarders(
    const ElfFile &file, int fd, std::span<const FoundFunction> functions);

}  // namespace gpusnoop::symbols
