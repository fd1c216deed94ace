/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Stacks of followed processes, counted: what runs, what is off the CPU, and what touches memory.
 */
#ifndef GPUSNOOP_PROFILE_H
#define GPUSNOOP_PROFILE_H

#include "bpf/lib/wire.h"

#define PROFILE_STACK_FRAMES 127

/* A process, as in struct followed. */
struct python_process {
	__u64 since_ns;
	__u32 tgid;
	__u32 padding;
};
WIRE_SIZE(struct python_process, 16);

/* What the stack is in each generation of the table. */
#define PROFILE_STACK_ID(stack) ((stack) & ~0xffULL)

/* One stack of one thread. */
struct profile_key {
	__u64 since_ns; /* of the process, as in struct followed */
	__u32 tgid;
	__u32 tid;
	__u64 user; /* in the table of stacks; 0: there is none, or no room for it */
	__u64 kernel;
	__u64 python;	  /* addresses of code objects (bpf/lib/python/layout.h) */
	__u16 function;	  /* of CUDA, that the thread is inside of, + 1; 0: of none */
	__u16 is_ready;	  /* off the CPU, because it has none */
	__u32 generation; /* of the table; in the last byte of the stacks, too */
	char comm[16];	  /* of the thread */
};
WIRE_SIZE(struct profile_key, 8 + 8 + 24 + 8 + 16);

/* Return addresses, innermost first; 0 after the last. */
struct profile_stack {
	__u64 address[PROFILE_STACK_FRAMES];
};
WIRE_SIZE(struct profile_stack, 8 * PROFILE_STACK_FRAMES);

/* An address of the kernel, and the name of its function. */
#define PROFILE_SYMBOL_BYTES 64
struct profile_symbol {
	__u64 address;
	char name[PROFILE_SYMBOL_BYTES];
};
WIRE_SIZE(struct profile_symbol, 8 + PROFILE_SYMBOL_BYTES);

struct profile_count {
	__u64 samples;
	__u64 amount; /* nanoseconds off the CPU, or bytes of the heap */
};
WIRE_SIZE(struct profile_count, 16);

/* A thread that is off the CPU. */
struct profile_off {
	struct profile_key key;
	__u64 since_ns; /* CLOCK_MONOTONIC */
};
WIRE_SIZE(struct profile_off, sizeof(struct profile_key) + 8);

#endif
