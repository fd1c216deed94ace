// The exits of code that was assembled by hand: every one of them, and nothing else.
#include "exporter/symbols/exits/function_exits.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

using namespace gpusnoop;
using namespace gpusnoop::symbols;

namespace {

constexpr std::uint64_t kVaddr = 0x401000;
using PartExits = std::vector<FunctionExit>;

std::vector<std::byte> code_of(std::initializer_list<int> values) {
    std::vector<std::byte> bytes;
    for (const int value : values) {
        bytes.push_back(static_cast<std::byte>(value));
    }
    return bytes;
}

std::vector<std::byte> words_of(std::initializer_list<std::uint32_t> words) {
    std::vector<std::byte> bytes;
    for (const std::uint32_t word : words) {
        for (unsigned shift = 0; shift < 32; shift += 8) {
            bytes.push_back(static_cast<std::byte>((word >> shift) & 0xFF));
        }
    }
    return bytes;
}

FunctionExits found(std::span<const std::byte> code, std::uint16_t machine) {
    const auto exits = find_exits(code, kVaddr, machine);
    INFO((exits ? "" : exits.error().message));
    REQUIRE(exits);
    return *exits;
}

FunctionExits x86(std::initializer_list<int> bytes) {
    return found(code_of(bytes), EM_X86_64);
}

FunctionExits arm(std::initializer_list<std::uint32_t> words) {
    return found(words_of(words), EM_AARCH64);
}

std::string problem(const std::vector<std::byte> &code, std::uint16_t machine = EM_X86_64) {
    const auto exits = find_exits(code, kVaddr, machine);
    REQUIRE_FALSE(exits);
    return exits.error().message;
}

PartExits one(std::uint64_t at, ExitKind kind) {
    return {{kVaddr + at, kind}};
}

}  // namespace

TEST_CASE("x86: every form of return", "[function_exits]") {
    CHECK(x86({0xc3}).exits == one(0, ExitKind::return_));                          // ret
    CHECK(x86({0xf3, 0xc3}).exits == one(0, ExitKind::return_));                    // repz ret
    CHECK(x86({0xf2, 0xc3}).exits == one(0, ExitKind::return_));                    // bnd ret
    CHECK(x86({0xc2, 0x10, 0x00}).exits == one(0, ExitKind::return_));              // ret $16
    CHECK(x86({0xf3, 0x0f, 0x1e, 0xfa, 0xc3}).exits == one(4, ExitKind::return_));  // endbr64
    // test %edi,%edi; je 1f; mov $1,%eax; ret; 1: xor %eax,%eax; ret; nopw; int3
    CHECK(x86({0x85, 0xff, 0x74, 0x06, 0xb8, 0x01, 0x00, 0x00, 0x00, 0xc3, 0x31, 0xc0, 0xc3, 0x66,
               0x90, 0xcc})
              .exits ==
          PartExits{{kVaddr + 9, ExitKind::return_}, {kVaddr + 12, ExitKind::return_}});
    // vmovups (%rdi),%zmm0{%k1}; ret
    CHECK(x86({0x62, 0xf1, 0x7c, 0x49, 0x10, 0x07, 0xc3}).exits == one(6, ExitKind::return_));
    // mov $0xc3c3c3c3,%eax; ret: not the bytes of the constant
    CHECK(x86({0xb8, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3}).exits == one(5, ExitKind::return_));
}

TEST_CASE("x86: a function that never returns has no exit", "[function_exits]") {
    CHECK(x86({0x50, 0xe8, 0, 0, 0, 0}).exits.empty());        // push; call
    CHECK(x86({0x50, 0xe8, 0, 0, 0, 0, 0x90}).exits.empty());  // push; call; nop
    CHECK(x86({0x0f, 0x0b}).exits.empty());                    // ud2
    const FunctionExits loop = x86({0x90, 0xeb, 0xfd});        // 1: nop; jmp 1b
    CHECK(loop.exits.empty());
    CHECK(loop.jumps_to_entry);
}

TEST_CASE("x86: jumps within, out and to the entry", "[function_exits]") {
    CHECK(x86({0xe9, 0, 1, 0, 0}).exits == one(0, ExitKind::tail_call));        // jmp far away
    CHECK(x86({0xf2, 0xe9, 0, 1, 0, 0}).exits == one(0, ExitKind::tail_call));  // bnd jmp
    CHECK(x86({0xeb, 0x80}).exits == one(0, ExitKind::tail_call));              // jmp, backwards
    CHECK(x86({0xeb, 0x00, 0xc3}).exits == one(2, ExitKind::return_));          // jmp 1f; 1: ret
    CHECK(x86({0xeb, 0x01, 0xc3}).exits ==
          PartExits{{kVaddr, ExitKind::tail_call},      // the first byte
                    {kVaddr + 2, ExitKind::return_}});  // past the end
    // je far away; ret; then jrcxz far away; ret
    CHECK(x86({0x0f, 0x84, 0, 1, 0, 0, 0xc3}).exits ==
          PartExits{{kVaddr, ExitKind::conditional_tail_call}, {kVaddr + 6, ExitKind::return_}});
    CHECK(x86({0xe3, 0x70, 0xc3}).has(ExitKind::conditional_tail_call));
    // 1: dec %edi; jne 1b; ret
    const FunctionExits looped = x86({0xff, 0xcf, 0x75, 0xfc, 0xc3});
    CHECK(looped.exits == one(4, ExitKind::return_));
    CHECK(looped.jumps_to_entry);
    // endbr64; 1: dec %edi; jne 1b; ret
    CHECK_FALSE(x86({0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0xcf, 0x75, 0xfc, 0xc3}).jumps_to_entry);
    // call of itself: an entry of its own
    CHECK_FALSE(x86({0xe8, 0xfb, 0xff, 0xff, 0xff, 0xc3}).jumps_to_entry);
    // 1: xbegin 1f; 1: xabort $1; ret
    CHECK(x86({0xc7, 0xf8, 0, 0, 0, 0, 0xc6, 0xf8, 0x01, 0xc3}).exits == one(9, ExitKind::return_));
}

TEST_CASE("x86: indirect jumps to functions", "[function_exits]") {
    CHECK(x86({0xff, 0xe7}).exits == one(0, ExitKind::tail_call));              // jmp *%rdi
    CHECK(x86({0x89, 0xfe, 0xff, 0xe7}).exits == one(2, ExitKind::tail_call));  // mov %edi,%esi
    CHECK(x86({0xff, 0x60, 0x18}).exits == one(0, ExitKind::tail_call));        // jmp *0x18(%rax)
    CHECK(x86({0xff, 0x25, 0, 1, 0, 0}).exits == one(0, ExitKind::tail_call));  // jmp *f@GOT(%rip)
    // mov (%rdi),%rax; mov 0x10(%rax),%rdx; mov %rdx,%rax; jmp *%rax
    CHECK(x86({0x48, 0x8b, 0x07, 0x48, 0x8b, 0x50, 0x10, 0x48, 0x89, 0xd0, 0xff, 0xe0}).exits ==
          one(10, ExitKind::tail_call));
    // mov (%rdi),%rax; test %rax,%rax; jne 1f; ret; nop; 1: jmp *%rax
    CHECK(x86({0x48, 0x8b, 0x07, 0x48, 0x85, 0xc0, 0x75, 0x02, 0xc3, 0x90, 0xff, 0xe0}).exits ==
          PartExits{{kVaddr + 8, ExitKind::return_}, {kVaddr + 10, ExitKind::tail_call}});
    // call; add $8,%rsp; pop %rbx; jmp *%rax: what a call gave, behind an epilogue
    CHECK(x86({0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 0x08, 0x5b, 0xff, 0xe0}).exits ==
          one(10, ExitKind::tail_call));
}

TEST_CASE("x86: switches are no exits", "[function_exits]") {
    // cmp $3,%edi; ja 1f; lea 0(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax;
    // jmp *%rax; 1: ret
    CHECK(x86({0x83, 0xff, 0x03, 0x77, 0x10, 0x48, 0x8d, 0x15, 0,    0,    0,
               0,    0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0xc3})
              .exits == one(21, ExitKind::return_));
    // add %rax,%rdx; jmp *%rdx, the distance being in the other register
    CHECK(x86({0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xc2, 0xff, 0xe2, 0xc3}).exits ==
          one(9, ExitKind::return_));
    // notrack jmp *%rax; ret, and notrack jmp *0x1000(,%rax,8); ret
    CHECK(x86({0x3e, 0xff, 0xe0, 0xc3}).exits == one(3, ExitKind::return_));
    CHECK(x86({0x3e, 0xff, 0x24, 0xc5, 0, 0x10, 0, 0, 0xc3}).exits == one(8, ExitKind::return_));
}

TEST_CASE("x86: what may be either is said to be so", "[function_exits]") {
    CHECK(x86({0xff, 0x24, 0xc5, 0, 0x10, 0, 0}).has(ExitKind::maybe_tail_call));  // an array
    // call; jmp *%rax
    CHECK(x86({0xe8, 0, 0, 0, 0, 0xff, 0xe0}).exits == one(5, ExitKind::maybe_tail_call));
    // add %rdx,%rax; jmp *%rax: no table is seen
    CHECK(x86({0x48, 0x01, 0xd0, 0xff, 0xe0}).exits == one(3, ExitKind::maybe_tail_call));
    // mov (%rdi),%rax; je 1f; mov (%rsi),%rax; 1: jmp *%rax: two ways to get there
    CHECK(x86({0x48, 0x8b, 0x07, 0x74, 0x03, 0x48, 0x8b, 0x06, 0xff, 0xe0}).exits ==
          one(8, ExitKind::maybe_tail_call));
    // mov (%rdi,%rsi,8),%rax; jmp *%rax
    CHECK(x86({0x48, 0x8b, 0x04, 0xf7, 0xff, 0xe0}).exits == one(4, ExitKind::maybe_tail_call));
    // 1: jmp *%rdi; jmp 1b: the second time, %rdi may be another
    CHECK(x86({0xff, 0xe7, 0xeb, 0xfc}).exits == one(0, ExitKind::maybe_tail_call));
}

TEST_CASE("x86: code that is not understood as a whole", "[function_exits]") {
    CHECK(problem({}) == "the size of the function is not known");
    CHECK(problem(code_of({0xc3, 0x06})) ==  // push %es: not in 64 bits
          "there is no known instruction at byte 1 of the function");
    CHECK(problem(code_of({0xc3, 0x48, 0x8b})) ==
          "the function ends within the instruction at byte 1 of the function");
    CHECK(problem(code_of({0xeb, 0x01, 0xb8, 0xc3, 0, 0, 0, 0xc3})) ==  // jmp 1f+1; 1: mov; ret
          "a jump goes to the inside of an instruction at byte 3 of the function");
    CHECK(problem(code_of({0xc3, 0x90, 0x89, 0xf8})) == "the function runs on past its end");
    CHECK(problem(code_of({0x74, 0xfe})) == "the function runs on past its end");  // 1: je 1b
    CHECK(problem(code_of({0xcb})) ==                                              // lret
          "a far jump or a return from an interrupt is at byte 0 of the function");
    CHECK(problem(code_of({0x48, 0xcf})).starts_with("a far jump"));  // iretq
    CHECK(problem(code_of({0xc3}), EM_RISCV) == "the machine is not known");
}

TEST_CASE("the limits of one function", "[function_exits]") {
    std::vector<std::byte> code(max_function_bytes, std::byte{0x90});
    code.back() = std::byte{0xc3};
    CHECK(found(code, EM_X86_64).exits == one(max_function_bytes - 1, ExitKind::return_));
    code.push_back(std::byte{0x90});
    CHECK(problem(code) == "the function is longer than 1048576 bytes");
    CHECK(found(std::vector(max_exits, std::byte{0xc3}), EM_X86_64).exits.size() == max_exits);
    CHECK(problem(std::vector(max_exits + 1, std::byte{0xc3})) ==
          "the function has more than 4096 exits");
}

TEST_CASE("code made to be slow is not", "[function_exits]") {
    // As many indirect jumps as there may be, each behind all that is looked at: no origin is
    // found.
    std::vector<std::byte> code;
    for (int i = 0; i < 4096; ++i) {
        code.insert(code.end(), 33, std::byte{0x90});  // nop
        code.push_back(std::byte{0xff});               // jmp *%rax
        code.push_back(std::byte{0xe0});
    }
    CHECK(found(code, EM_X86_64).exits.size() == 4096);
    code.push_back(std::byte{0xff});
    code.push_back(std::byte{0xe0});
    CHECK(problem(code) == "the function has too many indirect jumps");
}

TEST_CASE("arm64: returns and jumps", "[function_exits]") {
    CHECK(arm({0xd65f03c0}).exits == one(0, ExitKind::return_));              // ret
    CHECK(arm({0xd65f0200}).exits == one(0, ExitKind::return_));              // ret x16
    CHECK(arm({0xd50323ff, 0xd65f0bff}).exits == one(4, ExitKind::return_));  // autiasp; retaa
    CHECK(arm({0xd65f0fff}).exits == one(0, ExitKind::return_));              // retab
    CHECK(arm({0x17ffff00}).exits == one(0, ExitKind::tail_call));            // b, backwards
    CHECK(arm({0x14000001, 0xd65f03c0}).exits == one(4, ExitKind::return_));  // b 1f; 1: ret
    CHECK(arm({0x94000100, 0xd503201f}).exits.empty());                       // bl; nop
    CHECK(arm({0xd4207d00}).exits.empty());                                   // brk #1000
    // cbz w0, away; b.ne away; tbnz w1, #3, away; ret
    CHECK(arm({0x34010000, 0x54010001, 0x37190001, 0xd65f03c0}).exits ==
          PartExits{{kVaddr, ExitKind::conditional_tail_call},
                    {kVaddr + 4, ExitKind::conditional_tail_call},
                    {kVaddr + 8, ExitKind::conditional_tail_call},
                    {kVaddr + 12, ExitKind::return_}});
    // 1: subs w0, w0, #1; b.ne 1b; ret
    CHECK(arm({0x71000400, 0x54ffffe1, 0xd65f03c0}).jumps_to_entry);
}

TEST_CASE("arm64: indirect jumps", "[function_exits]") {
    CHECK(arm({0xd61f0000}).exits == one(0, ExitKind::tail_call));  // br x0
    // ldr x8, [x0]; ldr x2, [x8, #16]; br x2
    CHECK(arm({0xf9400008, 0xf9400902, 0xd61f0040}).exits == one(8, ExitKind::tail_call));
    // mov x2, x0; mov w0, w1; br x2
    CHECK(arm({0xaa0003e2, 0x2a0103e0, 0xd61f0040}).exits == one(8, ExitKind::tail_call));
    // bl; ldp x29, x30, [sp], #32; br x0
    CHECK(arm({0x94000100, 0xa8c27bfd, 0xd61f0000}).exits == one(8, ExitKind::tail_call));
    // adr x9, .; ldrb w10, [x8, x0]; add x9, x9, x10, lsl #2; br x9; ret: a switch
    CHECK(arm({0x10000009, 0x3860690a, 0x8b0a0929, 0xd61f0120, 0xd65f03c0}).exits ==
          one(16, ExitKind::return_));
    // ldrb w1, [x0, w1, uxtw]; adr x0, .; add x0, x0, w1, sxtb #2; br x0; ret: the same from gcc
    CHECK(arm({0x38614801, 0x10000000, 0x8b218800, 0xd61f0000, 0xd65f03c0}).exits ==
          one(16, ExitKind::return_));
    // ldr x2, [x8, w0, sxtw #3]; br x2: an array
    CHECK(arm({0xf860d902, 0xd61f0040}).exits == one(4, ExitKind::maybe_tail_call));
    // bl; br x0
    CHECK(arm({0x94000100, 0xd61f0000}).exits == one(4, ExitKind::maybe_tail_call));
}

TEST_CASE("arm64: code that is not understood as a whole", "[function_exits]") {
    CHECK(problem(words_of({0xd65f03c0, 0x00000000}), EM_AARCH64) ==  // udf
          "there is no known instruction at byte 4 of the function");
    CHECK(problem(words_of({0x5500001f}), EM_AARCH64) ==  // retaasppc: not known here
          "there is no known instruction at byte 0 of the function");
    CHECK(problem(words_of({0xaa0003e2}), EM_AARCH64) == "the function runs on past its end");
    CHECK(problem(code_of({0xc0, 0x03, 0x5f, 0xd6, 0x00}), EM_AARCH64) ==
          "the function ends within the instruction at byte 4 of the function");
    CHECK(find_exits(words_of({0xd65f03c0}), kVaddr + 2, EM_AARCH64).error().message ==
          "the function is not aligned");
}

TEST_CASE("any bytes give exits inside the code, or a sentence", "[function_exits]") {
    // Bytes that jumps, returns and their prefixes are made of come often.
    constexpr std::array<int, 16> likely{0xc3, 0xff, 0xe0, 0xeb, 0x74, 0x3e, 0xf3, 0x0f,
                                         0x48, 0x01, 0xd0, 0x63, 0x90, 0x5b, 0xe9, 0x8b};
    std::mt19937 random(20240607);
    int understood = 0;
    for (int round = 0; round < 100'000; ++round) {
        std::vector<std::byte> code(1 + random() % 24);
        for (std::byte &byte : code) {
            byte = static_cast<std::byte>(random() % 4 != 0 ? likely.at(random() % likely.size())
                                                            : static_cast<int>(random() % 256));
        }
        const std::uint16_t machine = round % 2 == 0 ? EM_X86_64 : EM_AARCH64;
        const auto exits = find_exits(code, kVaddr, machine);
        if (!exits) {
            REQUIRE_FALSE(exits.error().message.empty());
            continue;
        }
        ++understood;
        for (const FunctionExit &exit : exits->exits) {
            REQUIRE(exit.address - kVaddr < code.size());
        }
    }
    CHECK(understood > 1000);
}
