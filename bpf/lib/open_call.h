/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Calls that have begun and not returned, as the iterators of the CUDA and functions probes list
 * them (bpf/in_flight/), and as these probes report them when their thread ends. */
#ifndef GPUSNOOP_OPEN_CALL_H
#define GPUSNOOP_OPEN_CALL_H

#include "bpf/lib/wire.h"

#define OPEN_CALL_ARGUMENTS  7
#define OPEN_CALL_COMM_BYTES 16

/* Times are CLOCK_MONOTONIC nanoseconds. */
struct open_call {
	__u64 started_ns;
	__u64 cookie;			     /* the attach cookie: which function it is */
	__u64 sp;			     /* where its return address lies */
	__u64 argument[OPEN_CALL_ARGUMENTS]; /* as at its entry; 0: not read */
	__u32 tid;
	__s32 device; /* as in struct cuda_record; CUDA_DEVICE_UNCHOSEN of a named function */
	char comm[OPEN_CALL_COMM_BYTES]; /* of the thread */
};
WIRE_SIZE(struct open_call, 24 + 8 * OPEN_CALL_ARGUMENTS + 8 + OPEN_CALL_COMM_BYTES);

/* One open call of a thread. The calls of a thread come together, its innermost first. */
struct open_call_record {
	struct open_call call;
	__u64 since_ns;	  /* with the tgid: the process, as in the probe's other records */
	__u64 returns_to; /* where it will return to; 0: not known */
	__u32 tgid;
	__u32 unused;
};
WIRE_SIZE(struct open_call_record, sizeof(struct open_call) + 24);

#define OPEN_CALL_KERNEL_FRAMES 16
#define OPEN_CALL_SYMBOL_BYTES	48

/* Where a thread is that has an open call. */
struct blocked_thread_record {
	__u64 call_started_ns; /* of its innermost call */
	__u64 code_start;      /* of its program, as mm->start_code */
	__u64 trampoline; /* where calls with a return probe seem to return to; 0: nowhere yet */
	/* Its registers when it last entered the kernel: now, if it waits there. */
	__u64 instruction;
	__u64 stack;
	__u64 frame;
	__u64 link; /* arm64: where the innermost function may return to */
	__u32 tgid;
	__u32 tid;
	__u32 state; /* TASK_* of the kernel's sched.h; 0: it runs */
	__u32 kernel_frames;
	/* Functions of the kernel that it waits in, the innermost first. */
	char kernel[OPEN_CALL_KERNEL_FRAMES][OPEN_CALL_SYMBOL_BYTES];
};
WIRE_SIZE(struct blocked_thread_record,
	  7 * 8 + 16 + OPEN_CALL_KERNEL_FRAMES * OPEN_CALL_SYMBOL_BYTES);

/* How a thread ended inside a call. */
struct unreturned_call {
	struct open_call call;
	__u32 signal; /* that ended it; 0: it exited, or another thread did for all */
	__u32 unused;
};
WIRE_SIZE(struct unreturned_call, sizeof(struct open_call) + 8);

#endif
