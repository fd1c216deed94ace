#include "exporter/symbols/exits/entry_probe.h"

#include <Zydis/Zydis.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "exporter/symbols/exits/function_exits.h"

namespace gpusnoop::symbols {

std::vector<std::vector<std::byte>> first_bytes(int fd, std::span<const FoundFunction> functions) {
    std::vector<std::vector<std::byte>> all(functions.size());
    struct stat status{};
    if (::fstat(fd, &status) != 0) {
        return all;
    }
    ElfReader reader(fd, static_cast<std::uint64_t>(status.st_size),
                     {.max_bytes_read = max_swept_bytes});
    for (std::size_t i = 0; i < functions.size(); ++i) {
        all[i].resize(std::min<std::size_t>(functions[i].size, max_prologue_bytes));
        if (!reader.read(functions[i].file_offset, all[i])) {
            all[i].clear();
        }
    }
    return all;
}

namespace {

using Operands = std::span<const ZydisDecodedOperand>;

bool is_marker(const ZydisDecodedInstruction &instruction) {
    return instruction.mnemonic == ZYDIS_MNEMONIC_ENDBR64 ||
           instruction.mnemonic == ZYDIS_MNEMONIC_NOP;
}

// The kernel emulates 90, and 50 to 57 with or without 41 before it (the two functions above).
bool is_emulated_nop(std::span<const std::byte> code) {
    return code[0] == std::byte{0x90};
}

std::optional<unsigned> emulated_push(std::span<const std::byte> code) {
    const bool is_extended = code[0] == std::byte{0x41};
    if (is_extended && code.size() < 2) {
        return std::nullopt;
    }
    const auto opcode = std::to_integer<unsigned>(code[is_extended ? 1 : 0]);
    if (opcode < 0x50 || opcode > 0x57) {
        return std::nullopt;
    }
    return opcode - 0x50 + (is_extended ? 8 : 0);
}

// x86-64 psABI 3.2.1: rbx, rbp, r12 to r15.
bool is_preserved(unsigned number) {
    return number == 3 || number == 5 || number >= 12;
}

// True if it changes at most rax, r10, r11 and flags: no memory, no argument, no register that a
// stack walk needs.
bool changes_nothing_that_is_read(const ZydisDecodedInstruction &instruction, Operands operands) {
    switch (instruction.mnemonic) {
        case ZYDIS_MNEMONIC_ENDBR64:
        case ZYDIS_MNEMONIC_NOP:
        case ZYDIS_MNEMONIC_MOV:
        case ZYDIS_MNEMONIC_MOVZX:
        case ZYDIS_MNEMONIC_MOVSX:
        case ZYDIS_MNEMONIC_MOVSXD:
        case ZYDIS_MNEMONIC_LEA:
        case ZYDIS_MNEMONIC_XOR:
        case ZYDIS_MNEMONIC_TEST:
        case ZYDIS_MNEMONIC_CMP:
            break;
        default:
            return false;
    }
    return std::ranges::all_of(operands, [](const ZydisDecodedOperand &operand) {
        if ((operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0) {
            return true;
        }
        if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER) {
            return false;
        }
        if (ZydisRegisterGetClass(operand.reg.value) == ZYDIS_REGCLASS_FLAGS) {
            return true;
        }
        switch (ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand.reg.value)) {
            case ZYDIS_REGISTER_RAX:
            case ZYDIS_REGISTER_R10:
            case ZYDIS_REGISTER_R11:
                return true;
            default:
                return false;
        }
    });
}

}  // namespace

std::optional<std::uint64_t> first_emulated(std::span<const std::byte> code) {
    ZydisDecoder decoder;
    (void)ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    bool only_markers = true;
    for (std::size_t at = 0; at < code.size();) {
        const auto left = code.subspan(at);
        const auto pushed = emulated_push(left);
        if (pushed && (only_markers || is_preserved(*pushed))) {
            return at;
        }
        if (is_emulated_nop(left) && only_markers) {
            return at;
        }
        ZydisDecodedInstruction instruction;
        std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, left.data(), left.size(), &instruction,
                                                 operands.data())) ||
            !changes_nothing_that_is_read(instruction,
                                          Operands(operands).first(instruction.operand_count))) {
            return std::nullopt;
        }
        only_markers = only_markers && is_marker(instruction);
        at += instruction.length;
    }
    return std::nullopt;
}

std::vector<EntryProbe> find_entry_probes(const ElfFile &file, int fd,
                                          std::span<const FoundFunction> functions) {
    std::vector<EntryProbe> probes;
    std::unordered_set<std::uint64_t> entries;
    for (const FoundFunction &function : functions) {
        probes.push_back({function.file_offset, false});
        entries.insert(function.file_offset);
    }
    if (file.machine() != EM_X86_64) {
        return probes;
    }
    const auto bytes = first_bytes(fd, functions);
    std::vector<FoundFunction> movable;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < functions.size(); ++i) {
        const auto distance = first_emulated(bytes[i]);
        probes[i].is_expensive = !bytes[i].empty() && distance != 0U;
        if (distance.value_or(0) > 0 && !entries.contains(functions[i].file_offset + *distance)) {
            movable.push_back(functions[i]);
            places.push_back(i);
        }
    }
    const auto swept = find_exits(file, fd, movable);
    for (std::size_t i = 0; i < movable.size(); ++i) {
        const std::uint64_t distance = *first_emulated(bytes[places[i]]);
        if (swept[i] && swept[i]->first_inner_target.value_or(distance + 1) > distance) {
            probes[places[i]] = {movable[i].file_offset + distance, false};
        }
    }
    return probes;
}

}  // namespace gpusnoop::symbols
