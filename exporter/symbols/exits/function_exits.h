// The instructions that leave a function. Probes on them measure its latency without a return
// probe, which breaks C++ exceptions.
//
// A uprobe on such an instruction runs before the instruction does. It ends the call that was
// entered on this thread with the same stack pointer, and no other: at a true exit the frame is
// gone, so the stack pointer is what it was at the first instruction (both ABIs make a function
// preserve it: x86-64 psABI 3.2.1 "Registers", AAPCS64 6.1.1 "General-purpose Registers"). Every
// kind of exit needs this test. It rejects instructions that only look like exits: a jump made of
// PUSH and RET, a switch, a jump into a part of the function that has no symbol.
//
// The kernel refuses a uprobe on some of them, RETAA and RETAB of arm64 among them (arm64's
// decode-insn.c steps only RET): that shows when it is attached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::symbols {

enum class ExitKind : std::uint8_t {
    return_,
    // A jump to another function, which returns instead of this one: its time is not in the
    // duration measured up to here.
    tail_call,
    // A jump to an address from a register or an array; the code around it does not show whether it
    // is a tail call or a switch. In a function without a frame the stack pointer does not show it
    // either: a call may then be measured too short.
    maybe_tail_call,
    // A conditional jump out of the function: a probe on it does not know whether the function is
    // left. With a probe, a call that continues is measured too short, if the frame is not set up
    // yet; without one, a call that ends there stays open. So such a function is counted at its
    // entry only, or these calls are dropped. Nearly all are jumps to a cold part in a file without
    // .symtab (1 to 2 % of the functions of libstdc++), not calls.
    conditional_tail_call,
};

struct FunctionExit {
    std::uint64_t address = 0;
    ExitKind kind = ExitKind::return_;
    std::uint64_t target = 0;  // of a jump, if the instruction contains it; else 0
    friend bool operator==(const FunctionExit &one, const FunctionExit &other) {
        return one.address == other.address && one.kind == other.kind;
    }
};

struct FunctionExits {
    std::vector<FunctionExit> exits;  // by address; empty if the function never returns
    // A jump of the function goes to its first instruction (a loop, or a tail call of itself), so
    // the probe there runs again, with the same stack pointer, within one call.
    bool jumps_to_entry = false;
    // It calls other functions, besides tail calls.
    bool has_calls = false;
    // The first place behind its first instruction that a jump of it goes to, in bytes from there;
    // no value: none goes into its first part. Jumps of switches are not counted.
    std::optional<std::uint64_t> first_inner_target;

    [[nodiscard]] bool has(ExitKind kind) const;
};

// Longer functions are not searched. The largest in cuBLAS, cuDNN and NCCL has 77 KiB.
inline constexpr std::uint64_t max_function_bytes = std::uint64_t{1} << 20;
// The limit of one call. A hostile file makes each byte cost 12 bytes of memory for jumps.
inline constexpr std::uint64_t max_swept_bytes = std::uint64_t{8} << 20;
// Each becomes a probe. The most in one function of these libraries is 294.
inline constexpr std::size_t max_exits = 4096;
// The same of all functions of one call. Those after that fail.
inline constexpr std::size_t max_all_exits = 65'536;
// The parts of one function besides the first: compilers make one or two.
inline constexpr std::size_t max_parts = 8;

// The exits of the function whose instructions are `code`, the first of them at `vaddr`, for
// EM_X86_64 or EM_AARCH64. Addresses are vaddrs. Fails with a sentence unless all of the code
// decodes, from the first byte to the last: a probe inside an instruction would change it.
[[nodiscard]] Result<FunctionExits> find_exits(std::span<const std::byte> code, std::uint64_t vaddr,
                                               std::uint16_t machine);

// The exits of each of `functions` of `file`, in their order. Addresses are file offsets. `fd` is
// the file that `file` was opened with. A part that the compiler split off (a symbol that ends in
// ".cold", ".cold.<n>" or ".part.<n>") belongs to the function that jumps to it. In a file without
// .symtab such a part has no name: the jump is then a tail call like any other. Reads the symbols
// at most max_parts + 1 times, for all the functions together. Each function fails on its own.
[[nodiscard]] std::vector<Result<FunctionExits>> find_exits(
    const ElfFile &file, int fd, std::span<const FoundFunction> functions,
    const ElfLimits &limits = {.max_bytes_read = max_swept_bytes});

// Functions that only jump to another one and pass on all that they got: the arguments, the return
// address and the stack pointer. A probe on the other one sees the same calls, for one breakpoint
// less in each. CUDA 13's __cudaLaunchKernel is such a function, which <<<>>> calls: it makes a
// frame, drops it again, and jumps to cudaLaunchKernel.

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
