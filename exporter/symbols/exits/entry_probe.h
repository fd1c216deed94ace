// Where a probe on the entry of a function costs the least.
//
// The kernel emulates a few instructions under a uprobe, and lets the processor step over all
// others, with a second exception: on a virtual machine such a probe costs up to ten times as much.
// Emulated on x86-64 are PUSH of a whole register and single-byte NOP, besides jumps and calls
// (push_setup_xol_ops() and branch_setup_xol_ops() in the kernel's arch/x86/kernel/uprobes.c).
// Compilers begin many functions with ENDBR64 or a move, and a PUSH behind it: a probe there sees
// the same calls. Up to that instruction, nothing has changed that probes read: the arguments, the
// return address and the stack pointer, which return probes and the ends at exits need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::symbols {

// The beginnings of functions. For the sources of this folder only.

// Enough for ENDBR64 and a few moves, of at most 15 bytes each.
inline constexpr std::size_t max_prologue_bytes = 48;

// The first bytes of each function of the file that `fd` is, max_prologue_bytes at most, as far as
// the function goes; empty where they cannot be read.
[[nodiscard]] std::vector<std::vector<std::byte>> first_bytes(
    int fd, std::span<const FoundFunction> functions);

struct EntryProbe {
    std::uint64_t file_offset = 0;
    bool is_expensive = false;  // the kernel cannot emulate the instruction there

    friend bool operator==(const EntryProbe &, const EntryProbe &) = default;
};

// How far behind the first byte of x86-64 code the first instruction is that the kernel emulates.
// No value if the instructions before it may change something that probes read, may go elsewhere,
// or are not known. Behind other instructions than ENDBR64 and NOP, it is a PUSH of a register that
// functions preserve: code that was assembled by hand lets other functions jump behind its first
// instructions (memset() of the C library does), but not into the making of a frame.
[[nodiscard]] std::optional<std::uint64_t> first_emulated(std::span<const std::byte> code);

// For each of `functions` of `file`, which was opened with `fd`: the cheapest place, or the first
// instruction if no place behind it is certain to run once in each call, as jumps go there, or as
// the function cannot be decoded. No place is the first instruction of another of the functions. On
// arm64 it is always the first instruction, and none is called expensive.
[[nodiscard]] std::vector<EntryProbe> find_entry_probes(const ElfFile &file, int fd,
                                                        std::span<const FoundFunction> functions);

}  // namespace gpusnoop::symbols
