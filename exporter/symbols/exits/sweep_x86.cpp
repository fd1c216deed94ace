// x86-64, with Zydis as the decoder. "SDM" is Intel's Software Developer's Manual, volume 2.
#include <Zydis/Zydis.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "exporter/symbols/exits/sweep.h"

namespace gpusnoop::symbols {
namespace {

struct DecodedOperands {
    ZydisDecodedInstruction instruction;
    std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> all;
};

constexpr std::size_t caller = ~std::size_t{0};

bool writes(const DecodedOperands &operands, ZydisRegister wanted) {
    return std::any_of(operands.all.begin(),
                       operands.all.begin() + operands.instruction.operand_count,
                       [&](const ZydisDecodedOperand &operand) {
                           return operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
                                  (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0 &&
                                  ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
                                                                   operand.reg.value) == wanted;
                       });
}

bool is_padding(const ZydisDecodedInstruction &instruction) {
    return instruction.mnemonic == ZYDIS_MNEMONIC_NOP ||
           instruction.mnemonic == ZYDIS_MNEMONIC_INT3;
}

// True if the instruction after this one runs only when something jumps there. This also holds
// after a call of a function that does not return, but such calls are not known here.
bool ends_a_block(const ZydisDecodedInstruction &instruction) {
    switch (instruction.mnemonic) {
        case ZYDIS_MNEMONIC_RET:
        case ZYDIS_MNEMONIC_JMP:
        case ZYDIS_MNEMONIC_UD0:
        case ZYDIS_MNEMONIC_UD1:
        case ZYDIS_MNEMONIC_UD2:
        case ZYDIS_MNEMONIC_HLT:
            return true;
        default:
            return false;
    }
}

// Leaves the code in a way that C++ functions never use.
bool is_foreign(const ZydisDecodedInstruction &instruction) {
    switch (instruction.mnemonic) {
        case ZYDIS_MNEMONIC_IRET:
        case ZYDIS_MNEMONIC_IRETD:
        case ZYDIS_MNEMONIC_IRETQ:
        case ZYDIS_MNEMONIC_SYSRET:
        case ZYDIS_MNEMONIC_SYSEXIT:
        case ZYDIS_MNEMONIC_UIRET:
            return true;
        default:
            return instruction.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;
    }
}

class X86Sweep {
public:
    X86Sweep(std::span<const std::byte> code, std::uint64_t vaddr) : code_(code), vaddr_(vaddr) {
        // Cannot fail: the two constants go together.
        (void)ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    }

    Result<Sweep> run() {
        if (auto done = decode_all(); !done) {
            return tl::unexpected(done.error());
        }
        std::sort(jumps_.begin(), jumps_.end());
        sweep_.first_inner_target = first_inner_target(jumps_, vaddr_);
        for (const InnerJump &jump : jumps_) {
            if (!std::binary_search(starts_.begin(), starts_.end(), jump.target)) {
                return fail_at("a jump goes to the inside of an instruction", jump.target);
            }
        }
        if (indirect_.size() > max_indirect_jumps) {
            return fail("the function has too many indirect jumps", EFBIG);
        }
        for (const std::size_t index : indirect_) {
            classify(index);
        }
        return std::move(sweep_);
    }

private:
    Result<> decode_all() {
        bool runs_on = true;
        for (std::uint64_t at = 0; at < code_.size();) {
            ZydisDecodedInstruction instruction;
            const auto left = code_.subspan(static_cast<std::size_t>(at));
            const ZyanStatus status = ZydisDecoderDecodeInstruction(&decoder_, nullptr, left.data(),
                                                                    left.size(), &instruction);
            if (!ZYAN_SUCCESS(status)) {
                return fail_at(status == ZYDIS_STATUS_NO_MORE_DATA
                                   ? "the function ends within the instruction"
                                   : "there is no known instruction",
                               at);
            }
            if (is_foreign(instruction)) {
                return fail_at("a far jump or a return from an interrupt is", at);
            }
            starts_.push_back(at);
            padding_.push_back(is_padding(instruction));
            ends_.push_back(ends_a_block(instruction));
            note(at, instruction);
            if (!is_padding(instruction)) {
                // A call may be the end, if the called function does not return.
                runs_on =
                    !ends_a_block(instruction) && instruction.meta.category != ZYDIS_CATEGORY_CALL;
            } else if (instruction.mnemonic == ZYDIS_MNEMONIC_INT3) {
                runs_on = false;
            }
            at += instruction.length;
        }
        if (runs_on) {
            return fail("the function runs on past its end");
        }
        return {};
    }

    void note(std::uint64_t at, const ZydisDecodedInstruction &instruction) {
        sweep_.has_calls |= instruction.meta.category == ZYDIS_CATEGORY_CALL;
        if (instruction.mnemonic == ZYDIS_MNEMONIC_RET) {
            sweep_.returns.push_back(vaddr_ + at);
            return;
        }
        const bool jumps = instruction.mnemonic == ZYDIS_MNEMONIC_JMP;
        // XBEGIN, too: its operand is the address where an aborted transaction continues.
        const bool may_jump = instruction.meta.category == ZYDIS_CATEGORY_COND_BR ||
                              instruction.mnemonic == ZYDIS_MNEMONIC_XBEGIN;
        if (!jumps && !may_jump) {
            return;
        }
        const auto &immediate = instruction.raw.imm[0];
        if (immediate.is_relative == ZYAN_TRUE) {
            const std::uint64_t target =
                at + instruction.length + static_cast<std::uint64_t>(immediate.value.s);
            if (target < code_.size()) {
                jumps_.push_back({target, starts_.size() - 1});
            }
            if (target == 0 || target >= code_.size()) {
                sweep_.jumps.push_back({vaddr_ + at, vaddr_ + target, may_jump});
            }
        } else if (jumps && (instruction.attributes & ZYDIS_ATTRIB_HAS_NOTRACK) == 0) {
            // With NOTRACK, the target need not be an ENDBR64 (SDM, JMP): compilers set it on the
            // jumps of switches, whose cases have none, and never on a jump to a function.
            indirect_.push_back(starts_.size() - 1);
        }
    }

    // The operands of the index-th instruction.
    DecodedOperands operands_of(std::size_t index) const {
        DecodedOperands operands;
        const auto left = code_.subspan(static_cast<std::size_t>(starts_[index]));
        (void)ZydisDecoderDecodeFull(&decoder_, left.data(), left.size(), &operands.instruction,
                                     operands.all.data());
        return operands;
    }

    // The instruction that runs right before the index-th, if only one can and it is not a call,
    // which changes registers.
    std::optional<std::size_t> before(std::size_t index) const {
        std::size_t above = index - 1;
        for (std::size_t i = 0; i < max_instructions_back && above > 0 && padding_[above]; ++i) {
            --above;
        }
        const auto found = only_predecessor(jumps_, starts_[index], index, !ends_[above]);
        return found && operands_of(*found).instruction.meta.category != ZYDIS_CATEGORY_CALL
                   ? found
                   : std::nullopt;
    }

    // The instruction that gave `wanted` (64 bits wide) its value before the index-th; `caller` if
    // the value is the caller's; no value if that is not clear.
    std::optional<std::size_t> origin_of(ZydisRegister wanted, std::size_t index) const {
        for (std::size_t steps = 0; steps < max_instructions_back; ++steps) {
            if (index == 0) {
                const bool jumped_to = !jumps_.empty() && jumps_.front().target == 0;
                return jumped_to ? std::nullopt : std::optional(caller);
            }
            const auto previous = before(index);
            if (!previous) {
                return std::nullopt;
            }
            index = *previous;
            if (writes(operands_of(index), wanted)) {
                return index;
            }
        }
        return std::nullopt;
    }

    // True if the frame is removed right before the index-th instruction: by POP, LEAVE, or an
    // addition to RSP, with no call or branch in between.
    bool is_after_epilogue(std::size_t index) const {
        for (std::size_t steps = 0; steps < max_instructions_back && index != 0; ++steps) {
            const auto previous = before(index);
            if (!previous) {
                return false;
            }
            index = *previous;
            const DecodedOperands at = operands_of(index);
            if (at.instruction.meta.category == ZYDIS_CATEGORY_COND_BR) {
                return false;
            }
            if (writes(at, ZYDIS_REGISTER_RSP)) {
                return at.instruction.mnemonic == ZYDIS_MNEMONIC_POP ||
                       at.instruction.mnemonic == ZYDIS_MNEMONIC_LEAVE ||
                       (at.instruction.mnemonic == ZYDIS_MNEMONIC_ADD &&
                        at.all[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE);
            }
        }
        return false;
    }

    // A switch of position-independent code adds a distance, read from a table of 4-byte entries,
    // to the address of the table: MOVSXD or MOV with an index, then ADD.
    bool is_from_table(ZydisRegister wanted, std::size_t index) const {
        const auto origin = origin_of(wanted, index);
        if (!origin || *origin == caller) {
            return false;
        }
        const DecodedOperands load = operands_of(*origin);
        return (load.instruction.mnemonic == ZYDIS_MNEMONIC_MOVSXD ||
                load.instruction.mnemonic == ZYDIS_MNEMONIC_MOV) &&
               load.all[1].type == ZYDIS_OPERAND_TYPE_MEMORY &&
               load.all[1].mem.index != ZYDIS_REGISTER_NONE && load.all[1].size == 32;
    }

    enum class Goes { to_function, to_case, unknown };

    Goes goes(const ZydisDecodedOperand &target, std::size_t index, int moves_left) const {
        if (target.type == ZYDIS_OPERAND_TYPE_MEMORY) {
            // A slot of a vtable or of the GOT, or a pointer in an object. With an index, it is one
            // of an array: of functions, or of the cases of a switch.
            return target.mem.index == ZYDIS_REGISTER_NONE ? Goes::to_function : Goes::unknown;
        }
        if (target.type != ZYDIS_OPERAND_TYPE_REGISTER || moves_left == 0) {
            return Goes::unknown;
        }
        const auto origin = origin_of(target.reg.value, index);
        if (!origin) {
            return Goes::unknown;
        }
        if (*origin == caller) {
            return Goes::to_function;  // an argument
        }
        const DecodedOperands from = operands_of(*origin);
        if (from.instruction.operand_width != 64) {
            return Goes::unknown;
        }
        if (from.instruction.mnemonic == ZYDIS_MNEMONIC_MOV) {
            return goes(from.all[1], *origin, moves_left - 1);
        }
        if (from.instruction.mnemonic == ZYDIS_MNEMONIC_ADD &&
            from.all[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
            (is_from_table(from.all[0].reg.value, *origin) ||
             is_from_table(from.all[1].reg.value, *origin))) {
            return Goes::to_case;
        }
        return Goes::unknown;
    }

    void classify(std::size_t index) {
        const DecodedOperands jump = operands_of(index);
        const Goes where = goes(jump.all[0], index, 4);
        if (where != Goes::to_case) {
            const bool leaves = where == Goes::to_function || is_after_epilogue(index);
            sweep_.indirect_jumps.push_back({vaddr_ + starts_[index], leaves});
        }
    }

    std::span<const std::byte> code_;
    std::uint64_t vaddr_;
    ZydisDecoder decoder_{};
    std::vector<std::uint64_t> starts_;  // of the instructions, from the first byte
    std::vector<bool> padding_;          // is_padding() of each
    std::vector<bool> ends_;             // ends_a_block() of each
    std::vector<InnerJump> jumps_;
    std::vector<std::size_t> indirect_;  // indices into starts_
    Sweep sweep_;
};

}  // namespace

Result<Sweep> sweep_x86_64(std::span<const std::byte> code, std::uint64_t vaddr) {
    return X86Sweep(code, vaddr).run();
}

}  // namespace gpusnoop::symbols
