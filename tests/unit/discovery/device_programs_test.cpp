#include "exporter/discovery/gpus/device_programs.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "bpf/device_programs.h"
#include "exporter/discovery/gpus/device_program_reader.h"
#include "tests/harness/device_program.h"

using namespace gpusnoop::discovery;
using harness::device_program;
using harness::instruction;

namespace {

using Program = std::vector<bpf_insn>;

constexpr bpf_insn device_programs_exit = instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
constexpr std::uint64_t device_programs_none = 0;

bpf_insn set(unsigned to, std::uint32_t value) {
    return instruction(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}

}  // namespace

TEST_CASE("a device program allows what it compares with") {
    const Program program = device_program(195, {1, 3}, {{511, 7}});
    CHECK(allows(program, {195, 0}) == false);
    CHECK(allows(program, {195, 1}) == true);
    CHECK(allows(program, {195, 3}) == true);
    CHECK(allows(program, {511, 7}) == true);
    CHECK(allows(program, {511, 3}) == false);
    CHECK(allows(device_program(195, {}), {195, 0}) == false);
}

TEST_CASE("programs in other shapes are understood by what they do") {
    SECTION("clang's: a range of minors, with one end for all") {
        const Program program = {instruction(BPF_LDX | BPF_MEM | BPF_W, 2, 1, 4, 0),
                                 set(0, 1),
                                 instruction(BPF_JMP | BPF_JNE | BPF_K, 2, 0, 4, 195),
                                 set(0, 0),
                                 instruction(BPF_LDX | BPF_MEM | BPF_W, 1, 1, 8, 0),
                                 instruction(BPF_JMP32 | BPF_JLT | BPF_K, 1, 0, 1, 3),
                                 set(0, 1),
                                 device_programs_exit};
        CHECK(allows(program, {195, 2}) == false);
        CHECK(allows(program, {195, 3}) == true);
        CHECK(allows(program, {1, 2}) == true);
    }
    SECTION("systemd's: jumps to the end") {
        const Program program = {instruction(BPF_LDX | BPF_MEM | BPF_W, 5, 1, 8, 0),
                                 instruction(BPF_JMP | BPF_JNE | BPF_K, 5, 0, 1, 2),
                                 instruction(BPF_JMP | BPF_JA, 0, 0, 2, 0),
                                 set(0, 0),
                                 instruction(BPF_JMP | BPF_JA, 0, 0, 1, 0),
                                 set(0, 1),
                                 device_programs_exit};
        CHECK(allows(program, {195, 2}) == true);
        CHECK(allows(program, {195, 1}) == false);
    }
    SECTION("with constants that the kernel has blinded") {
        const Program program = {instruction(BPF_LDX | BPF_MEM | BPF_W, 5, 1, 8, 0),
                                 instruction(BPF_ALU64 | BPF_MOV | BPF_K, 11, 0, 0, 0x5a5a5a5a ^ 3),
                                 instruction(BPF_ALU64 | BPF_XOR | BPF_K, 11, 0, 0, 0x5a5a5a5a),
                                 set(0, 1),
                                 instruction(BPF_JMP | BPF_JEQ | BPF_X, 5, 11, 1, 0),
                                 set(0, 0),
                                 device_programs_exit};
        CHECK(allows(program, {195, 3}) == true);
        CHECK(allows(program, {195, 2}) == false);
    }
}

TEST_CASE("a program that does anything else is not understood") {
    const auto is_unknown = [](const Program &program) {
        return !allows(program, {195, 0}).has_value();
    };
    CHECK(is_unknown({}));
    CHECK(is_unknown({set(0, 1)}));             // has no end
    CHECK(is_unknown({device_programs_exit}));  // with a result that was not set
    CHECK(is_unknown(harness::opaque_device_program()));
    // The stack, and beyond the context.
    CHECK(is_unknown({instruction(BPF_LDX | BPF_MEM | BPF_W, 0, 10, -8, 0), device_programs_exit}));
    CHECK(is_unknown({instruction(BPF_LDX | BPF_MEM | BPF_W, 0, 1, 9, 0), device_programs_exit}));
    CHECK(is_unknown({instruction(BPF_LDX | BPF_MEM | BPF_W, 0, 1, -1, 0), device_programs_exit}));
    CHECK(is_unknown({instruction(BPF_LDX | BPF_MEM | BPF_DW, 0, 1, 0, 0), device_programs_exit}));
    CHECK(is_unknown({instruction(BPF_ALU64 | BPF_MOV | BPF_X, 0, 1, 0, 0), device_programs_exit}));
    CHECK(is_unknown({instruction(BPF_ALU64 | BPF_ADD | BPF_X, 1, 1, 0, 0), device_programs_exit}));
    // Jumps before the start, without an end, by a value that is not known.
    CHECK(is_unknown({instruction(BPF_JMP | BPF_JA, 0, 0, -9, 0)}));
    CHECK(is_unknown({instruction(BPF_JMP | BPF_JA, 0, 0, -1, 0)}));
    CHECK(is_unknown({instruction(BPF_JMP | BPF_JEQ | BPF_K, 7, 0, 0, 1), device_programs_exit}));
}

TEST_CASE("any bytes are read as a program") {
    std::mt19937 generator(7);
    const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
    for (int round = 0; round < 20'000; round++) {
        Program program(1 + random() % 8);
        for (bpf_insn &next : program) {
            next = instruction(random(), random(), random(),
                               static_cast<std::int16_t>(static_cast<int>(random() % 16) - 8),
                               random());
        }
        (void)allows(program, {195, random() % 4});
    }
}

TEST_CASE("all programs must allow a device, and one that denies it is enough") {
    const DevicePrograms known = {{device_program(195, {1, 2}), device_program(195, {2, 3})},
                                  false};
    CHECK(known.allow({195, 1}) == false);
    CHECK(known.allow({195, 2}) == true);
    CHECK(DevicePrograms{}.allow({195, 1}) == true);
    const DevicePrograms partly = {{device_program(195, {1}), harness::opaque_device_program()},
                                   false};
    CHECK(partly.allow({195, 1}) == std::nullopt);
    CHECK(partly.allow({195, 2}) == false);
    const DevicePrograms more = {{device_program(195, {1})}, true};
    CHECK(more.allow({195, 1}) == std::nullopt);
    CHECK(more.allow({195, 2}) == false);
    CHECK_FALSE(more.empty());
}

TEST_CASE("device programs come from the kernel in words") {
    CHECK_FALSE(device_programs_in({}));
    CHECK_FALSE(device_programs_in(std::vector{device_programs_none}));
    const auto none = device_programs_in(std::vector<std::uint64_t>{DEVICE_PROGRAMS_BEGIN});
    REQUIRE(none);
    CHECK(none->empty());
    const std::uint64_t leave = 0x95;
    const auto two = device_programs_in(std::vector<std::uint64_t>{
        DEVICE_PROGRAMS_BEGIN, 1, leave, DEVICE_PROGRAM_UNREADABLE, 2, 0x1000000b7, leave});
    REQUIRE(two);
    CHECK(two->has_unreadable);
    REQUIRE(two->programs.size() == 2);
    CHECK(allows(two->programs[1], {195, 0}) == true);
    CHECK_FALSE(device_programs_in(std::vector<std::uint64_t>{DEVICE_PROGRAMS_BEGIN, 2, leave}));
    CHECK_FALSE(device_programs_in(std::vector<std::uint64_t>{DEVICE_PROGRAMS_BEGIN, UINT64_MAX}));
}
