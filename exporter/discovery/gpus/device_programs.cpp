#include "exporter/discovery/gpus/device_programs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace gpusnoop::discovery {

namespace {

constexpr unsigned most_steps = 8192;
constexpr std::size_t registers = 12;  // also the one that the kernel blinds constants with

struct Value {
    enum class Kind { unknown, number, context } kind = Kind::unknown;
    std::uint64_t number = 0;

    [[nodiscard]] bool is_number() const { return kind == Kind::number; }
};

constexpr Value number(std::uint64_t value) {
    return {Value::Kind::number, value};
}

// As the kernel widens an immediate value.
constexpr std::uint64_t widened(std::int32_t value) {
    return static_cast<std::uint64_t>(std::int64_t{value});
}

std::optional<std::uint64_t> computed(std::uint8_t operation, std::uint64_t left,
                                      std::uint64_t right, bool wide) {
    const unsigned shift = static_cast<unsigned>(right) & (wide ? 63U : 31U);
    switch (operation) {
        case BPF_ADD:
            return left + right;
        case BPF_SUB:
            return left - right;
        case BPF_AND:
            return left & right;
        case BPF_OR:
            return left | right;
        case BPF_XOR:
            return left ^ right;
        case BPF_LSH:
            return left << shift;
        case BPF_RSH:
            return (wide ? left : left & UINT32_MAX) >> shift;
        case BPF_MOV:
            return right;
        default:
            return std::nullopt;
    }
}

std::optional<bool> compared(std::uint8_t operation, std::uint64_t left, std::uint64_t right) {
    switch (operation) {
        case BPF_JEQ:
            return left == right;
        case BPF_JNE:
            return left != right;
        case BPF_JGT:
            return left > right;
        case BPF_JGE:
            return left >= right;
        case BPF_JLT:
            return left < right;
        case BPF_JLE:
            return left <= right;
        case BPF_JSET:
            return (left & right) != 0;
        default:
            return std::nullopt;
    }
}

// Runs a program on one device, as the kernel would.
class Run {
public:
    Run(std::span<const bpf_insn> program, CharacterDevice device) : program_(program) {
        constexpr std::uint32_t access = BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE;
        const bpf_cgroup_dev_ctx context = {.access_type = access << 16 | BPF_DEVCG_DEV_CHAR,
                                            .major = device.major,
                                            .minor = device.minor};
        std::memcpy(context_.data(), &context, sizeof(context));
        values_[BPF_REG_1].kind = Value::Kind::context;
    }

    std::optional<bool> verdict() {
        for (unsigned step = 0; step < most_steps && at_ < program_.size(); step++) {
            const bpf_insn &instruction = program_[at_++];
            if (instruction.code == (BPF_JMP | BPF_EXIT)) {
                return values_[BPF_REG_0].is_number()
                           ? std::optional((values_[BPF_REG_0].number & UINT32_MAX) != 0)
                           : std::nullopt;
            }
            if (instruction.dst_reg >= registers || instruction.src_reg >= registers ||
                !execute(instruction)) {
                return std::nullopt;
            }
        }
        return std::nullopt;
    }

private:
    bool execute(const bpf_insn &instruction) {
        switch (BPF_CLASS(instruction.code)) {
            case BPF_ALU:
                return compute(instruction, false);
            case BPF_ALU64:
                return compute(instruction, true);
            case BPF_JMP:
                return jump(instruction, true);
            case BPF_JMP32:
                return jump(instruction, false);
            case BPF_LDX:
                return load(instruction);
            default:
                return false;
        }
    }

    [[nodiscard]] Value operand(const bpf_insn &instruction) const {
        return BPF_SRC(instruction.code) == BPF_X ? values_[instruction.src_reg]
                                                  : number(widened(instruction.imm));
    }

    bool compute(const bpf_insn &instruction, bool wide) {
        Value &target = values_[instruction.dst_reg];
        const Value right = operand(instruction);
        const std::uint8_t operation = BPF_OP(instruction.code);
        if (instruction.off != 0) {
            return false;  // signed
        }
        if (operation == BPF_MOV && wide) {
            target = right;
            return true;
        }
        if (!right.is_number() || (operation != BPF_MOV && !target.is_number())) {
            return false;
        }
        const auto result = computed(operation, target.number, right.number, wide);
        if (result) {
            target = number(wide ? *result : *result & UINT32_MAX);
        }
        return result.has_value();
    }

    bool jump(const bpf_insn &instruction, bool wide) {
        const std::uint8_t operation = BPF_OP(instruction.code);
        std::optional<bool> taken;
        if (operation == BPF_JA) {
            taken = wide ? std::optional(true) : std::nullopt;
        } else if (const Value left = values_[instruction.dst_reg], right = operand(instruction);
                   left.is_number() && right.is_number()) {
            const std::uint64_t mask = wide ? UINT64_MAX : UINT32_MAX;
            taken = compared(operation, left.number & mask, right.number & mask);
        }
        if (taken.value_or(false)) {
            // An end before the start wraps around, and so is past the end of the program.
            at_ += static_cast<std::size_t>(std::ptrdiff_t{instruction.off});
        }
        return taken.has_value();
    }

    // Only from the context: what is on the stack or behind a pointer is not known here.
    bool load(const bpf_insn &instruction) {
        const std::size_t bytes = BPF_SIZE(instruction.code) == BPF_W   ? 4
                                  : BPF_SIZE(instruction.code) == BPF_H ? 2
                                  : BPF_SIZE(instruction.code) == BPF_B ? 1
                                                                        : 0;
        const auto from = static_cast<std::size_t>(std::max<std::int16_t>(instruction.off, 0));
        if (BPF_MODE(instruction.code) != BPF_MEM || bytes == 0 || instruction.off < 0 ||
            from + bytes > context_.size() ||
            values_[instruction.src_reg].kind != Value::Kind::context) {
            return false;
        }
        std::uint64_t value = 0;
        std::memcpy(&value, context_.data() + from, bytes);  // little-endian, as both machines are
        values_[instruction.dst_reg] = number(value);
        return true;
    }

    std::span<const bpf_insn> program_;
    std::array<std::byte, sizeof(bpf_cgroup_dev_ctx)> context_{};
    std::array<Value, registers> values_{};
    std::size_t at_ = 0;
};

}  // namespace

std::optional<bool> allows(std::span<const bpf_insn> program, CharacterDevice device) {
    return Run(program, device).verdict();
}

std::optional<bool> DevicePrograms::allow(CharacterDevice device) const {
    bool is_known = !has_unreadable;
    for (const auto &program : programs) {
        const auto verdict = allows(program, device);
        if (verdict == false) {
            return false;
        }
        is_known = is_known && verdict;
    }
    return is_known ? std::optional(true) : std::nullopt;
}

}  // namespace gpusnoop::discovery
