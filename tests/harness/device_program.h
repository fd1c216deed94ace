// Device programs of cgroups, as container runtimes and Slurm make them.
#pragma once

#include <linux/bpf.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace harness {

constexpr bpf_insn instruction(unsigned code, unsigned to, unsigned from, std::int16_t offset,
                               std::uint32_t value) {
    return {.code = static_cast<std::uint8_t>(code),
            .dst_reg = static_cast<std::uint8_t>(to & 0xfU),
            .src_reg = static_cast<std::uint8_t>(from & 0xfU),
            .off = offset,
            .imm = static_cast<std::int32_t>(value)};
}

// Allows to open the character devices <major>:<minors> and `others`, for reading and writing, and
// nothing else: in the shape of runc's, a block of comparisons for each.
inline std::vector<bpf_insn> device_program(
    std::uint32_t major, const std::vector<std::uint32_t> &minors,
    std::vector<std::pair<std::uint32_t, std::uint32_t>> others = {}) {
    constexpr std::uint32_t read_write = BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE;
    std::vector<bpf_insn> program = {
        instruction(BPF_LDX | BPF_MEM | BPF_H, 2, 1, 0, 0),  // the type
        instruction(BPF_LDX | BPF_MEM | BPF_W, 3, 1, 0, 0),
        instruction(BPF_ALU | BPF_RSH | BPF_K, 3, 0, 0, 16),  // the access
        instruction(BPF_LDX | BPF_MEM | BPF_W, 4, 1, 4, 0),   // the major number
        instruction(BPF_LDX | BPF_MEM | BPF_W, 5, 1, 8, 0),   // the minor number
    };
    for (const std::uint32_t minor : minors) {
        others.emplace_back(major, minor);
    }
    for (const auto &[of_major, of_minor] : others) {
        for (const bpf_insn &next :
             {instruction(BPF_JMP | BPF_JNE | BPF_K, 2, 0, 7, BPF_DEVCG_DEV_CHAR),
              instruction(BPF_ALU | BPF_MOV | BPF_X, 1, 3, 0, 0),
              instruction(BPF_ALU | BPF_AND | BPF_K, 1, 0, 0, read_write),
              instruction(BPF_JMP | BPF_JNE | BPF_X, 1, 3, 4, 0),
              instruction(BPF_JMP | BPF_JNE | BPF_K, 4, 0, 3, of_major),
              instruction(BPF_JMP | BPF_JNE | BPF_K, 5, 0, 2, of_minor),
              instruction(BPF_ALU | BPF_MOV | BPF_K, 0, 0, 0, 1),
              instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)}) {
            program.push_back(next);
        }
    }
    program.push_back(instruction(BPF_ALU | BPF_MOV | BPF_K, 0, 0, 0, 0));
    program.push_back(instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
    return program;
}

// Allows all, but by a call of the kernel, which only running it would show.
inline std::vector<bpf_insn> opaque_device_program() {
    return {instruction(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_uid_gid),
            instruction(BPF_ALU | BPF_MOV | BPF_K, 0, 0, 0, 1),
            instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)};
}

}  // namespace harness
