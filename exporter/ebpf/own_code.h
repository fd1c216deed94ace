// Where functions of the exporter are in its own file, to attach to them.
#pragma once

#include <cstdint>

namespace gpusnoop::ebpf {

// The offset in the program's file of the code at `address`, by the loader's program headers. 0:
// the address is in no segment.
[[nodiscard]] std::uint64_t file_offset(std::uintptr_t address);

}  // namespace gpusnoop::ebpf
