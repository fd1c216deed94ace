/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The syscall probe's contract: the tables that its programs count in, and the record of a call
 * that a trace gets instead. */
#ifndef GPUSNOOP_SYSCALL_H
#define GPUSNOOP_SYSCALL_H

#include "bpf/lib/traced.h"

/* The machine has no system calls from this number on. */
#define SYSCALL_NUMBERS 512
/* Instead of a number: made as another machine's call (32-bit x86, x32, 32-bit arm), whose numbers
 * mean something else; or a number that the machine cannot have. */
#define SYSCALL_COMPAT	SYSCALL_NUMBERS
#define SYSCALL_UNKNOWN (SYSCALL_NUMBERS + 1)
#define SYSCALL_COUNT	(SYSCALL_NUMBERS + 2)

/* Upper bounds of the buckets, in nanoseconds, inclusive. One more bucket is for longer calls. */
#define SYSCALL_BOUNDS                                                                             \
	{1000ULL,	4000ULL,       16000ULL,       64000ULL,       256000ULL,                  \
	 1000000ULL,	4000000ULL,    16000000ULL,    64000000ULL,    256000000ULL,               \
	 1000000000ULL, 4000000000ULL, 16000000000ULL, 64000000000ULL, 256000000000ULL}
#define SYSCALL_BUCKETS 16

/* The functions that call the tracepoints in kernels that do not inline them (seen in 7.2, not in
 * 6.12 and 6.18), with the registers and the number, or the result; and the function where a
 * thread's end begins. */
#define SYSCALL_ENTER_FUNCTION "trace_syscall_enter"
#define SYSCALL_LEAVE_FUNCTION "trace_syscall_exit"
#define SYSCALL_EXIT_FUNCTION  "do_exit"

/* Threads of one process that make the same call on several CPUs would wait for each other's
 * counters, so each call has several sets of them. */
#define SYSCALL_MAX_SHARDS 8

struct syscall_key {
	__u64 since_ns;
	__u32 tgid;
	__u16 number;
	__u16 shard;
};
WIRE_SIZE(struct syscall_key, 16);

struct syscall_counts {
	__u64 nanoseconds;
	__u64 calls[SYSCALL_BUCKETS];
};
WIRE_SIZE(struct syscall_counts, 8 + 8 * SYSCALL_BUCKETS);

struct syscall_error_key {
	__u64 since_ns;
	__u32 tgid;
	__u16 number;
	__u16 error; /* positive */
};
WIRE_SIZE(struct syscall_error_key, 16);

/* A record type after the types of bpf/lib/traced.h. */
#define SYSCALL_RECORD 16

#define SYSCALL_ARGUMENTS 6

struct syscall_record {
	struct traced_record head; /* at_ns: when it returned */
	__u64 nanoseconds;
	__s64 result;
	__u64 arguments[SYSCALL_ARGUMENTS]; /* registers, also unused ones */
	__u32 tid;
	__u32 number;	 /* or SYSCALL_COMPAT, SYSCALL_UNKNOWN */
	__s32 made_with; /* the number that the program gave */
	__u32 reserved;
};
WIRE_SIZE(struct syscall_record, 24 + 16 + 8 * SYSCALL_ARGUMENTS + 16);

#define SYSCALL_PATH_BYTES 256

/* Instead, where a trace wants paths. */
struct syscall_open_record {
	struct syscall_record call;
	char path[SYSCALL_PATH_BYTES]; /* of the program's memory, cut; "": it cannot be read */
};
WIRE_SIZE(struct syscall_open_record, sizeof(struct syscall_record) + SYSCALL_PATH_BYTES);

#endif
