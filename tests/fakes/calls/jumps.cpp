// The functions that end with a jump, or begin with the target of one. This file alone is compiled
// with sibling calls; and what no compiler can be made to do is written out.
#include <cstdint>

#include "calls/calls_cpp.h"
#include "calls/count.h"

namespace calls {

long tail(long number) {
    const std::uint64_t began = count_begin(CALLS_cpp_tail);
    // Before the jump, as what is measured of it ends there.
    count_end(CALLS_cpp_tail, began);
    return plain(number);
}

namespace {

long (*volatile g_target)(long) = plain;

// Of the loop that the thread is in.
thread_local std::uint64_t g_loop_began = 0;

}  // namespace

long tail_indirect(long number) {
    const std::uint64_t began = count_begin(CALLS_cpp_tail_indirect);
    count_end(CALLS_cpp_tail_indirect, began);
    return g_target(number);
}

}  // namespace calls

// One time around: how many are left. kLoopStart tells the start of a call from the jump back to
// it.
extern "C" std::uint64_t count_loop(std::uint64_t times) {
    if ((times & calls::kLoopStart) != 0) {
        calls::g_loop_began = count_begin(CALLS_cpp_loop);
    }
    const std::uint64_t left = (times & ~calls::kLoopStart) - 1;
    if (left == 0) {
        const std::uint64_t began = calls::g_loop_began;
        count_end(CALLS_cpp_loop, began);
        return 0;  // not a sibling call: the end was counted inside
    }
    return left;
}

extern "C" std::uint64_t count_maybe_tail() {
    const std::uint64_t began = count_begin(CALLS_cpp_maybe_tail);
    count_end(CALLS_cpp_maybe_tail, began);
    return began;
}

// 0b is the function's first instruction: its symbol may be another library's.
#define FUNCTION(symbol)      \
    "    .globl " symbol      \
    "\n"                      \
    "    .type " symbol       \
    ", %function\n"           \
    "    .p2align 4\n" symbol \
    ":\n0:\n"                 \
    "    .cfi_startproc\n"
#define END(symbol)      \
    "    .cfi_endproc\n" \
    "    .size " symbol ", . - " symbol "\n"

#define LOOP "_ZN5calls4loopEm"
#define MAYBE_TAIL "_ZN5calls10maybe_tailEl"

#if defined(__x86_64__)
__asm__(
    "    .pushsection .text\n"
    "    .hidden count_loop\n"
    "    .hidden count_maybe_tail\n" FUNCTION(LOOP)
    "    pushq %rbx\n"
    "    .cfi_adjust_cfa_offset 8\n"
    "    callq count_loop\n"
    "    movq %rax, %rdi\n"
    "    popq %rbx\n"
    "    .cfi_adjust_cfa_offset -8\n"
    "    testq %rdi, %rdi\n"
    "    jne 0b\n"
    "    retq\n" END(LOOP) FUNCTION(MAYBE_TAIL)
    "    pushq %rdi\n"
    "    .cfi_adjust_cfa_offset 8\n"
    "    callq count_maybe_tail\n"
    "    popq %rdi\n"
    "    .cfi_adjust_cfa_offset -8\n"
    "    testb $1, %dil\n"
    "    jne _ZN5calls5plainEl@PLT\n"
    "    movq %rdi, %rax\n"
    "    retq\n" END(MAYBE_TAIL)
    "    .popsection\n");
#elif defined(__aarch64__)
// A conditional branch does not reach another file's function: the jump goes on from behind the
// end.
__asm__(
    "    .pushsection .text\n"
    "    .hidden count_loop\n"
    "    .hidden count_maybe_tail\n" FUNCTION(LOOP)
    "    stp x29, x30, [sp, -16]!\n"
    "    bl count_loop\n"
    "    ldp x29, x30, [sp], 16\n"
    "    cbnz x0, 0b\n"
    "    ret\n" END(LOOP) FUNCTION(MAYBE_TAIL)
    "    stp x0, x30, [sp, -16]!\n"
    "    bl count_maybe_tail\n"
    "    ldp x0, x30, [sp], 16\n"
    "    tbnz x0, 0, 1f\n"
    "    ret\n" END(MAYBE_TAIL)
    "1:  b _ZN5calls5plainEl\n"
    "    .popsection\n");
#endif
