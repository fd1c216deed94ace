// AArch64: every instruction is one little-endian word of 4 bytes. The masks are from the Arm
// Architecture Reference Manual (DDI 0487), C4.1 "A64 instruction set encoding".
#include <algorithm>
#include <cerrno>
#include <optional>

#include "exporter/symbols/exits/sweep.h"

namespace gpusnoop::symbols {
namespace {

constexpr std::uint64_t word_bytes = 4;

constexpr bool matches(std::uint32_t word, std::uint32_t mask, std::uint32_t value) {
    return (word & mask) == value;
}

// `bits` bits of the word from bit `lowest` on.
constexpr std::uint32_t field(std::uint32_t word, unsigned lowest, unsigned bits) {
    return (word >> lowest) & ((std::uint32_t{1} << bits) - 1);
}

// The same as a signed number of words, in bytes.
constexpr std::uint64_t distance(std::uint32_t word, unsigned lowest, unsigned bits) {
    const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
    return ((field(word, lowest, bits) ^ sign) - sign) * word_bytes;
}

// "Unconditional branch (register)": opc is bits 24 to 21.
constexpr bool is_register_branch(std::uint32_t word) {
    return matches(word, 0xFE1F0000, 0xD61F0000);
}
constexpr std::uint32_t opc(std::uint32_t word) {
    return field(word, 21, 4);
}
constexpr bool is_return(std::uint32_t word) {  // RET, RETAA, RETAB
    return is_register_branch(word) && opc(word) == 2;
}
constexpr bool is_indirect_jump(std::uint32_t word) {  // BR, BRAAZ, BRABZ; BRAA, BRAB
    return is_register_branch(word) && (opc(word) == 0 || opc(word) == 8);
}
constexpr bool is_call(std::uint32_t word) {  // BLR and its kind; BL
    return (is_register_branch(word) && (opc(word) == 1 || opc(word) == 9)) ||
           matches(word, 0xFC000000, 0x94000000);
}
constexpr bool is_b(std::uint32_t word) {
    return matches(word, 0xFC000000, 0x14000000);
}
constexpr bool is_b_cond(std::uint32_t word) {  // B.cond, BC.cond
    return matches(word, 0xFF000000, 0x54000000);
}
constexpr bool is_compare_branch(std::uint32_t word) {  // CBZ, CBNZ
    return matches(word, 0x7E000000, 0x34000000);
}
constexpr bool is_test_branch(std::uint32_t word) {  // TBZ, TBNZ
    return matches(word, 0x7E000000, 0x36000000);
}
constexpr bool is_load_pair(std::uint32_t word) {  // LDP Xt1, Xt2, with any addressing
    return matches(word, 0xFE400000, 0xA8400000);
}
constexpr bool is_compare(std::uint32_t word) {  // CMP, CMN, TST: the result goes to XZR
    return field(word, 0, 5) == 31;
}
constexpr bool is_trap(std::uint32_t word) {  // BRK, HLT
    return matches(word, 0xFFE0001F, 0xD4200000) || matches(word, 0xFFE0001F, 0xD4400000);
}
constexpr bool is_padding(std::uint32_t word) {
    return word == 0xD503201F;  // NOP
}
constexpr bool ends_a_block(std::uint32_t word) {
    return is_return(word) || is_indirect_jump(word) || is_b(word) || is_trap(word);
}

// The instructions that a linear sweep accepts. op0 (bits 28 to 25) is the group; 0 is UDF or SME,
// 1 and 3 are unallocated. In the group of branches only the known ones, so that a new kind of
// return (RETAASPPC is one) is not treated as an instruction that continues to the next.
constexpr bool is_known(std::uint32_t word) {
    const std::uint32_t group = field(word, 25, 4);
    if (group == 0) {
        return matches(word, 0x80000000, 0x80000000);
    }
    if (group == 1 || group == 3) {
        return false;
    }
    if ((group & 0xE) != 0xA) {
        return true;
    }
    return is_return(word) || is_indirect_jump(word) || is_call(word) || is_b(word) ||
           is_b_cond(word) || is_compare_branch(word) || is_test_branch(word) ||
           matches(word, 0xFF000000, 0xD4000000) ||  // exceptions: SVC, BRK, HLT
           matches(word, 0xFF000000, 0xD5000000);    // hints, barriers, system registers
}

// The target's distance, if the instruction contains one.
constexpr std::optional<std::uint64_t> jump_distance(std::uint32_t word) {
    if (is_b(word)) {
        return distance(word, 0, 26);
    }
    if (is_b_cond(word) || is_compare_branch(word)) {
        return distance(word, 5, 19);
    }
    if (is_test_branch(word)) {
        return distance(word, 5, 14);
    }
    return std::nullopt;
}

class Arm64Sweep {
public:
    Arm64Sweep(std::span<const std::byte> code, std::uint64_t vaddr) : code_(code), vaddr_(vaddr) {}

    Result<Sweep> run() {
        if (vaddr_ % word_bytes != 0) {
            return fail("the function is not aligned");
        }
        bool runs_on = true;
        for (std::uint64_t at = 0; at < code_.size(); at += word_bytes) {
            if (code_.size() - at < word_bytes) {
                return fail_at("the function ends within the instruction", at);
            }
            const std::uint32_t word = word_at(at);
            if (!is_known(word)) {
                return fail_at("there is no known instruction", at);
            }
            note(at, word);
            if (!is_padding(word)) {
                runs_on = !ends_a_block(word) && !is_call(word);
            }
        }
        if (runs_on) {
            return fail("the function runs on past its end");
        }
        std::sort(jumps_.begin(), jumps_.end());
        sweep_.first_inner_target = first_inner_target(jumps_, vaddr_);
        if (indirect_.size() > max_indirect_jumps) {
            return fail("the function has too many indirect jumps", EFBIG);
        }
        for (const std::uint64_t at : indirect_) {
            const Goes where = goes(at);
            if (where != Goes::to_case) {
                sweep_.indirect_jumps.push_back(
                    {vaddr_ + at, where == Goes::to_function || is_after_epilogue(at)});
            }
        }
        return std::move(sweep_);
    }

private:
    std::uint32_t word_at(std::uint64_t at) const {
        std::uint32_t word = 0;
        for (unsigned i = 0; i < word_bytes; ++i) {
            word |= std::to_integer<std::uint32_t>(code_[static_cast<std::size_t>(at) + i])
                    << (8 * i);
        }
        return word;
    }

    void note(std::uint64_t at, std::uint32_t word) {
        sweep_.has_calls |= is_call(word);
        if (is_return(word)) {
            sweep_.returns.push_back(vaddr_ + at);
        } else if (is_indirect_jump(word)) {
            indirect_.push_back(at);
        } else if (const auto far = jump_distance(word)) {
            const std::uint64_t target = at + *far;
            if (target < code_.size()) {
                jumps_.push_back({target, static_cast<std::size_t>(at / word_bytes)});
            }
            if (target == 0 || target >= code_.size()) {
                sweep_.jumps.push_back({vaddr_ + at, vaddr_ + target, !is_b(word)});
            }
        }
    }

    enum class Goes { to_function, to_case, unknown };

    // The instruction that runs right before the one at `at`, if only one can and it is not a call,
    // which changes registers. Both are bytes from the first.
    std::optional<std::uint64_t> before(std::uint64_t at) const {
        std::uint64_t above = at - word_bytes;
        for (std::size_t i = 0;
             i < max_instructions_back && above > 0 && is_padding(word_at(above)); ++i) {
            above -= word_bytes;
        }
        const auto found = only_predecessor(jumps_, at, static_cast<std::size_t>(at / word_bytes),
                                            !ends_a_block(word_at(above)));
        return found && !is_call(word_at(*found * word_bytes)) ? std::optional(*found * word_bytes)
                                                               : std::nullopt;
    }

    // A switch adds a distance from a table to an address: ADD of two registers. A pointer to a
    // function is loaded or moved, and reaches the jump unchanged.
    Goes goes(std::uint64_t at) const {
        std::uint32_t wanted = field(word_at(at), 5, 5);
        for (std::size_t steps = 0; steps < max_instructions_back; ++steps) {
            if (at == 0) {
                const bool jumped_to = !jumps_.empty() && jumps_.front().target == 0;
                return jumped_to ? Goes::unknown : Goes::to_function;  // an argument
            }
            const auto previous = before(at);
            if (!previous) {
                return Goes::unknown;
            }
            at = *previous;
            const std::uint32_t word = word_at(at);
            // Bits 4 to 0 are the destination in all instructions tested here. In others they have
            // another meaning, or are a source: then the answer is unknown.
            if (is_load_pair(word) && field(word, 10, 5) == wanted) {
                return Goes::to_function;
            }
            if (jump_distance(word) || field(word, 0, 5) != wanted || is_compare(word)) {
                continue;
            }
            if (matches(word, 0xFF200000, 0x8B000000) ||  // ADD (shifted register)
                matches(word, 0xFFE00000, 0x8B200000)) {  // ADD (extended register)
                return Goes::to_case;
            }
            if (matches(word, 0xFFC00000, 0xF9400000) ||  // LDR (unsigned offset)
                matches(word, 0xFFE00000, 0xF8400000) ||  // LDR (pre, post), LDUR, LDTR
                is_load_pair(word)) {
                return Goes::to_function;
            }
            if (!matches(word, 0xFFE0FFE0, 0xAA0003E0)) {  // MOV (register): ORR with XZR
                return Goes::unknown;
            }
            wanted = field(word, 16, 5);
        }
        return Goes::unknown;
    }

    // True if the frame is removed right before: by a load that moves SP up or an addition to SP,
    // with no call or branch in between.
    bool is_after_epilogue(std::uint64_t at) const {
        for (std::size_t steps = 0; steps < max_instructions_back && at != 0; ++steps) {
            const auto previous = before(at);
            if (!previous) {
                return false;
            }
            at = *previous;
            const std::uint32_t word = word_at(at);
            if (jump_distance(word)) {
                return false;
            }
            if (matches(word, 0xFFC003E0, 0xA8C003E0) ||  // LDP Xt1, Xt2, [SP], #imm
                matches(word, 0xFFE00FE0, 0xF84007E0) ||  // LDR Xt, [SP], #imm
                matches(word, 0xFF8003FF, 0x910003FF)) {  // ADD SP, SP, #imm
                return true;
            }
        }
        return false;
    }

    std::span<const std::byte> code_;
    std::uint64_t vaddr_;
    std::vector<InnerJump> jumps_;
    std::vector<std::uint64_t> indirect_;  // indirect jumps, from the first byte
    Sweep sweep_;
};

}  // namespace

Result<Sweep> sweep_aarch64(std::span<const std::byte> code, std::uint64_t vaddr) {
    return Arm64Sweep(code, vaddr).run();
}

}  // namespace gpusnoop::symbols
