/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Where the time of launching threads goes, and what all threads of followed processes wait for:
 * the accounts that the programs keep of them, and the records that their iterators write. A
 * launching thread has submitted work to a GPU: kernels, graphs, copies or memsets. */
#ifndef GPUSNOOP_HOST_TIME_H
#define GPUSNOOP_HOST_TIME_H

#include "bpf/lib/wire.h"

/* What of CUDA a thread is inside of. The names are the values of the label `phase`. */
#define HOST_PHASES(PHASE)                                                                         \
	PHASE(host)   /* outside of traced calls */                                                \
	PHASE(launch) /* a launch of a kernel or a graph, or a memset */                           \
	PHASE(copy)   /* an asynchronous copy */                                                   \
	PHASE(wait)   /* a call that waits for the GPU: synchronizations, synchronous copies */    \
	PHASE(memory) /* an allocation or a free */                                                \
	PHASE(other)  /* any other traced call */

enum host_phase {
#define PHASE(name) HOST_##name,
	HOST_PHASES(PHASE)
#undef PHASE
	    HOST_PHASE_COUNT
};

#define HOST_PHASE_SLOTS 8 /* a power of two */

/* What a thread does, or what it waits for. The names are the values of the label `state`. */
#define HOST_STATES(STATE)                                                                         \
	STATE(running)	 /* on a CPU */                                                            \
	STATE(runnable)	 /* ready, and waits for a CPU */                                          \
	STATE(throttled) /* ready, but its cgroup has used up its CPU quota */                     \
	STATE(stolen)	 /* on a CPU that interrupts or the hypervisor had */                      \
	STATE(futex)	 /* blocked, as are all of the following */                                \
	STATE(poll)                                                                                \
	STATE(sleep)                                                                               \
	STATE(child) /* waits for the end of a process */                                          \
	STATE(io_uring)                                                                            \
	STATE(file) /* a regular file or a directory */                                            \
	STATE(socket)                                                                              \
	STATE(pipe)                                                                                \
	STATE(device)	  /* a character device */                                                 \
	STATE(page_fault) /* outside of a system call */                                           \
	STATE(memory)	  /* a system call that changes the address space */                       \
	STATE(stopped)	  /* by a signal or by a debugger */                                       \
	STATE(other)

enum host_state {
#define STATE(name) HOST_STATE_##name,
	HOST_STATES(STATE)
#undef STATE
	    HOST_STATE_COUNT
};

/* The class of a system call: a state; or, by the file of the descriptor that is its first
 * argument, one of four. */
#define HOST_CALLS	   512 /* the machine has no system calls from this number on */
#define HOST_BY_DESCRIPTOR HOST_STATE_COUNT

/* NUMA nodes; the last entry has the others. */
#define HOST_NODES 9

/* Upper bounds of waits for a CPU, in nanoseconds, inclusive. One more bucket is for longer ones.
 */
#define HOST_LATENCY_BOUNDS                                                                        \
	{1000ULL,    4000ULL,	  16000ULL,    64000ULL,     256000ULL,	    1000000ULL,            \
	 4000000ULL, 16000000ULL, 64000000ULL, 256000000ULL, 1000000000ULL, 4000000000ULL}
#define HOST_LATENCY_BUCKETS 13

/* A gap: a process gives its GPU nothing, from the end of its last submission or wait to the
 * beginning of its next submission. What that last call was; the names are the values of the label
 * `drain`. */
#define HOST_DRAINS(DRAIN)                                                                         \
	DRAIN(none)   /* a submission: the GPU may still be busy */                                \
	DRAIN(stream) /* a wait for a stream or an event, or a synchronous copy */                 \
	DRAIN(device) /* a wait for the device: it had nothing to do from then on */

enum host_drain {
#define DRAIN(name) HOST_DRAIN_##name,
	HOST_DRAINS(DRAIN)
#undef DRAIN
	    HOST_DRAIN_COUNT
};

/* Upper bounds of gaps and of waits for files, in nanoseconds, inclusive. One more bucket is for
 * longer ones. */
#define HOST_SPAN_BOUNDS                                                                           \
	{10000ULL,    50000ULL,	   200000ULL,	1000000ULL,   2000000ULL,    5000000ULL,           \
	 10000000ULL, 20000000ULL, 50000000ULL, 200000000ULL, 1000000000ULL, 10000000000ULL}
#define HOST_SPAN_BUCKETS 13

/* What a thread did in a gap: its states, outside of CUDA calls, and the calls that submit nothing.
 */
#define HOST_GAP_CUDA_CALL HOST_STATE_COUNT
#define HOST_GAP_STATES	   (HOST_STATE_COUNT + 1)

/* Time of a thread, or of several, in nanoseconds. All numbers only grow. */
struct host_times {
	__u64 wall_ns;			 /* since its first submission */
	__u64 call_ns[HOST_PHASE_COUNT]; /* inside of calls; `host` is the rest of the wall time */
	/* Of all states but `running`, which is the rest of each phase's time. */
	__u64 off_ns[HOST_PHASE_COUNT][HOST_STATE_COUNT];
	__u64 ran_ns;	  /* running, up to when it last left its CPU */
	__u64 latency_ns; /* the sum of the waits for a CPU */
	__u64 latencies[HOST_LATENCY_BUCKETS];
	/* A thread leaves its CPU: an interval begins, which ends when it leaves the next one. */
	__u64 opened;
	__u64 settled;
	__u64 file_waits_lost; /* waits for files that the table had no room for */
	/* Records of explained gaps, and those of them that found no room in the ring. */
	__u64 gap_records;
	__u64 gap_records_lost;
};
#define HOST_TIME_WORDS                                                                            \
	(1 + HOST_PHASE_COUNT + 1 * HOST_PHASE_COUNT * (1 * HOST_STATE_COUNT) + 2 +                \
	 HOST_LATENCY_BUCKETS + 5)
WIRE_SIZE(struct host_times, 8 * HOST_TIME_WORDS);

/* The part of it that is by device: of the one that the thread last submitted something to. */
struct host_device_times {
	__u64 node_ns[HOST_NODES]; /* running, by the CPU's NUMA node */
	/* The gaps that this thread has ended. */
	__u64 gap_ns[HOST_DRAIN_COUNT];
	__u64 gaps[HOST_DRAIN_COUNT][HOST_SPAN_BUCKETS];
	__u64 gap_state_ns[HOST_DRAIN_COUNT][HOST_GAP_STATES]; /* of those that are explained */
};
#define HOST_DEVICE_WORDS                                                                          \
	(HOST_NODES + 1 * HOST_DRAIN_COUNT * (1 + HOST_SPAN_BUCKETS + 1 * HOST_GAP_STATES))
WIRE_SIZE(struct host_device_times, 8 * HOST_DEVICE_WORDS);

struct host_device_key {
	__u64 since_ns;
	__u32 tgid;
	__s32 device; /* ordinal in the process, or CUDA_DEVICE_... of bpf/cuda/cuda.h */
};
WIRE_SIZE(struct host_device_key, 16);

/* Time of another thread of a followed process, or of several, by state. All numbers only grow. */
struct host_waits {
	__u64 ns[HOST_STATE_COUNT];
	__u64 latency_ns;
	__u64 latencies[HOST_LATENCY_BUCKETS];
	__u64 opened;
	__u64 settled;
	__u64 file_waits_lost;
};
#define HOST_WAIT_WORDS (HOST_STATE_COUNT + 1 + HOST_LATENCY_BUCKETS + 3)
WIRE_SIZE(struct host_waits, 8 * (1 * HOST_WAIT_WORDS));

/* Whose waits: of one thread, or of the ended threads of a process. */
struct host_waiter {
	__u64 since_ns;
	__u32 tgid;
	__u32 role; /* enum followed_role */
	__u32 root; /* as in struct followed */
	__u32 reserved;
};
WIRE_SIZE(struct host_waiter, 24);

struct host_waits_record {
	struct host_waiter waiter;
	struct host_waits waits;
};
WIRE_SIZE(struct host_waits_record, 24 + sizeof(struct host_waits));

/* A process's waits for the files of one kind of file systems. */
struct host_file_key {
	__u64 since_ns;
	__u32 tgid;
	__u32 filesystem; /* its s_magic; 0: it is not known, as a name was looked up */
};
WIRE_SIZE(struct host_file_key, 16);

struct host_file_waits {
	__u64 ns;
	__u64 waits[HOST_SPAN_BUCKETS];
};
WIRE_SIZE(struct host_file_waits, 8 + 8 * (1 * HOST_SPAN_BUCKETS));

/* A process, as in the table of followed processes. */
struct host_process {
	__u64 since_ns;
	__u32 tgid;
	__u32 reserved;
};
WIRE_SIZE(struct host_process, 16);

/* A time in which a thread was blocked without a break. */
struct host_block {
	__u64 ns;
	__u16 state;	  /* enum host_state */
	__u16 call;	  /* the number of the system call, or HOST_NO_CALL */
	__u32 filesystem; /* of `file`, as in struct host_file_key */
	__s32 stack;	  /* in the table of stacks; negative: none */
	__u32 reserved;
};
WIRE_SIZE(struct host_block, 24);
#define HOST_NO_CALL 0xffff

#define HOST_STACK_FRAMES 64

/* A gap that is explained, of the thread that ended it. */
struct host_gap_record {
	struct host_process process;
	__u64 ended_ns; /* CLOCK_MONOTONIC: the submission began that ended it */
	__u64 ns;
	__u32 tid;
	__u32 drain; /* enum host_drain */
	/* Functions as in the records of `cuda`: what it began with, and what ended it. */
	__u16 before; /* HOST_GAP_OTHER_THREAD: another thread's call, which is not known */
	__u16 after;
	__s32 device;  /* as in struct host_device_key */
	char comm[16]; /* of the thread */
	__u64 state_ns[HOST_GAP_STATES];
	struct host_block longest; /* 0 ns: it was never blocked */
};
WIRE_SIZE(struct host_gap_record,
	  16 + 16 + 8 + 8 + 16 + 8 * (1 * HOST_GAP_STATES) + sizeof(struct host_block));
#define HOST_GAP_OTHER_THREAD 0xffff

/* A launching thread as it is now: with the interval and the call that are still open. */
struct host_thread_record {
	struct host_process process;
	__u64 since_ns; /* its first submission */
	__u64 open_ns;	/* how long it has been off the CPU; 0: it is on one */
	__u64 call_ns;	/* how long it has been inside of its CUDA call; 0: it is in none */
	__u32 tid;
	__u32 cpu;	/* where it runs, or ran last */
	__u16 state;	/* enum host_state, of that time */
	__u16 phase;	/* enum host_phase */
	__s32 device;	/* as in struct host_device_key */
	char comm[16];	/* of the thread */
	__u32 function; /* of its CUDA call, as in the records of `cuda` */
	__u32 reserved;
	struct host_times times;
	struct host_device_times of_device; /* that it had not before for another device */
};
WIRE_SIZE(struct host_thread_record,
	  16 + 24 + 16 + 16 + 8 + sizeof(struct host_times) + sizeof(struct host_device_times));

#endif
