// MARK(provider, probe, semaphore): a USDT probe as DTRACE_PROBE of <sys/sdt.h> makes it, without
// arguments, and with its line in a comment, so that compilers fold no two of them into one.
// `semaphore` is the name of a SEMAPHORE, or 0.
#pragma once

#define MARK_TEXT_OF(line) #line
#define MARK_TEXT(line) MARK_TEXT_OF(line)

// clang-format off
#define MARK(provider, probe, semaphore)                                       \
    __asm__ volatile(                                                          \
        "990: nop\n"                                                           \
        "/* line " MARK_TEXT(__LINE__) " */\n"                                 \
        ".pushsection .note.stapsdt,\"\",\"note\"\n"                           \
        ".balign 4\n"                                                          \
        ".4byte 992f-991f, 994f-993f, 3\n"                                     \
        "991: .asciz \"stapsdt\"\n"                                            \
        "992: .balign 4\n"                                                     \
        "993: .8byte 990b, _.stapsdt.base, " #semaphore "\n"                   \
        ".asciz \"" #provider "\"\n"                                           \
        ".asciz \"" #probe "\"\n"                                              \
        ".asciz \"\"\n"                                                        \
        "994: .balign 4\n"                                                     \
        ".popsection\n"                                                        \
        ".ifndef _.stapsdt.base\n"                                             \
        ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
        ".weak _.stapsdt.base\n"                                               \
        ".hidden _.stapsdt.base\n"                                             \
        "_.stapsdt.base: .space 1\n"                                           \
        ".size _.stapsdt.base, 1\n"                                            \
        ".popsection\n"                                                        \
        ".endif\n" ::: "memory")
// clang-format on

// A 16-bit counter where debuggers expect it.
#define SEMAPHORE(name) \
    __attribute__((section(".probes"), visibility("hidden"), used)) volatile unsigned short name

#if defined(__clang__)
#define STAYS_WHOLE __attribute__((noinline, used))
#else
#define STAYS_WHOLE __attribute__((noipa))
#endif
