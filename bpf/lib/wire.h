/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The definitions that both sides of a ring share. Valid in BPF C and in C++. */
#ifndef GPUSNOOP_WIRE_H
#define GPUSNOOP_WIRE_H

#include <linux/types.h>

#ifdef __cplusplus
#define WIRE_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type " changed its size")
#else
#define WIRE_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " changed its size")
#endif

/* Why a call that a probe entered has no event. The names are the values of the label `reason`. */
#define LOST_REASONS(REASON)                                                                       \
	REASON(ring_full)	 /* no room in the ring: the exporter was too slow */              \
	REASON(throttled)	 /* the process was over its calls per second */                   \
	REASON(no_state)	 /* no memory for the thread's state */                            \
	REASON(process_table)	 /* more CUDA processes than the table holds */                    \
	REASON(too_deep)	 /* more nested calls than a thread's state holds */               \
	REASON(allocation_table) /* more live allocations than the table holds */                  \
	REASON(fault)		 /* the call's result could not be read from the process */        \
	REASON(table_full)	 /* another of the probe's tables is full */

enum lost_reason {
#define REASON(name) LOST_##name,
	LOST_REASONS(REASON)
#undef REASON
	    LOST_REASON_COUNT
};

/* The signals that kill a program which a probe has broken: a breakpoint in code that was copied or
 * moved, a return that the kernel cannot make or that a system call filter refuses, a changed stack
 * or address. */
#define DEATH_SIGNALS(SIGNAL)                                                                      \
	SIGNAL(SIGILL, 4)                                                                          \
	SIGNAL(SIGTRAP, 5)                                                                         \
	SIGNAL(SIGSEGV, 11)                                                                        \
	SIGNAL(SIGSYS, 31)

enum death_signal {
#define SIGNAL(name, number) DEATH_##name,
	DEATH_SIGNALS(SIGNAL)
#undef SIGNAL
	    DEATH_SIGNAL_COUNT
};

/* One probe's account, kept per CPU and added to atomically (a uprobe program can be preempted by
 * another one on the same CPU). It balances:
 *   entered = events + in flight + stale + lost[*]
 * `nested` calls ran inside a counted one and are part of it; they are not in `entered`. */
struct probe_account {
	__u64 entered;
	__u64 nested;
	__u64 events;	 /* calls whose record is in the ring */
	__u64 unmatched; /* returns without an entry: a fork's child, a call older than the probe */
	__u64 stale;	 /* calls that never return: longjmp, thread exit, exec */
	__u64 lost[LOST_REASON_COUNT];
	__u64 deaths[DEATH_SIGNAL_COUNT]; /* programs that died inside a call, by signal */
	__u64 counted; /* calls with an event as they enter: also entered and events, when read */
};
WIRE_SIZE(struct probe_account, (6 + LOST_REASON_COUNT + DEATH_SIGNAL_COUNT) * 8);

#endif
