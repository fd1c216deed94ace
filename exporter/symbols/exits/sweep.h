// One pass over the instructions of a piece of code, from its first byte to its last: finds its
// exits and the targets of its jumps. For the sources of this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exporter/base/result.h"

namespace gpusnoop::symbols {

// A jump whose target is in the instruction.
struct DirectJump {
    std::uint64_t at = 0;      // vaddr of the instruction
    std::uint64_t target = 0;  // vaddr
    bool conditional = false;
};

// A jump to an address from a register or from memory that is not the jump of a switch.
struct IndirectJump {
    std::uint64_t at = 0;  // vaddr
    bool leaves = false;   // certainly goes to a function; else it may be a switch
};

struct Sweep {
    std::vector<std::uint64_t> returns;  // vaddrs
    std::vector<DirectJump> jumps;       // out of the code, or to its first byte
    std::vector<IndirectJump> indirect_jumps;
    bool has_calls = false;
    // The first place behind the first byte that a jump of this code goes to; no value: to none.
    std::optional<std::uint64_t> first_inner_target;  // vaddr
};

// A jump to a place of the same code.
struct InnerJump {
    std::uint64_t target = 0;  // bytes from the first
    std::size_t source = 0;    // index of the instruction
    friend bool operator<(const InnerJump &a, const InnerJump &b) { return a.target < b.target; }
};

// The only instruction that can run before the index-th, which is at `offset`; no value if there
// are several, or none is found (the case of a switch, for example). `jumps` are sorted; `falls_in`
// says whether the instruction before it continues to it.
[[nodiscard]] std::optional<std::size_t> only_predecessor(std::span<const InnerJump> jumps,
                                                          std::uint64_t offset, std::size_t index,
                                                          bool falls_in);

// Of jumps that are sorted: see Sweep.
[[nodiscard]] std::optional<std::uint64_t> first_inner_target(std::span<const InnerJump> jumps,
                                                              std::uint64_t vaddr);

// How far back from an indirect jump the origin of its target is searched: compilers put the two
// close together, with at most an epilogue between them.
inline constexpr std::size_t max_instructions_back = 32;
// A hostile file could make this search long, so a sweep with more of them fails.
inline constexpr std::size_t max_indirect_jumps = 4096;

// Both fail with an error if the code has a byte sequence that is not an instruction, or ends
// within one, if a jump goes to the inside of an instruction (then data in the code has put the
// sweep out of step), or if execution would run past the end of the code.
[[nodiscard]] Result<Sweep> sweep_x86_64(std::span<const std::byte> code, std::uint64_t vaddr);
[[nodiscard]] Result<Sweep> sweep_aarch64(std::span<const std::byte> code, std::uint64_t vaddr);

// "<what> at byte <offset>", as an error.
[[nodiscard]] inline tl::unexpected<Error> fail_at(const std::string &what, std::uint64_t offset) {
    return fail(what + " at byte " + std::to_string(offset) + " of the function");
}

}  // namespace gpusnoop::symbols
