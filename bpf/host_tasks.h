/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel keeps of the threads of followed processes. */
#ifndef GPUSNOOP_HOST_TASKS_H
#define GPUSNOOP_HOST_TASKS_H

#include "bpf/lib/processes/followed.h"

/* So long after its end a process is read; the exporter forgets it later. */
#define TASKS_READ_AFTER_END_NS 3000000000ULL

/* Sums that only grow. */
enum tasks_sum {
	TASKS_CPU_NS,
	TASKS_RUNQUEUE_NS, /* ready, without a CPU */
	TASKS_VOLUNTARY,   /* switches */
	TASKS_INVOLUNTARY,
	TASKS_MINOR_FAULTS,
	TASKS_MAJOR_FAULTS,
	TASKS_READ_BYTES, /* from storage */
	TASKS_WRITTEN_BYTES,
	TASKS_SUMS,
};

/* Pages. */
enum tasks_memory {
	TASKS_FILE,
	TASKS_ANON,
	TASKS_SWAP,
	TASKS_SHMEM,
	TASKS_LOCKED,
	TASKS_PINNED,
	TASKS_MEMORY_KINDS,
};

struct tasks_sums {
	__u64 of[TASKS_SUMS];
};
WIRE_SIZE(struct tasks_sums, 8 * TASKS_SUMS);

/* Of one thread, in a reading of all. */
struct tasks_thread {
	__u64 since_ns;
	__u32 tgid;
	__u32 role;	  /* enum followed_role */
	__u64 has_memory; /* 1: of one thread of each process */
	struct tasks_sums sums;
	__s64 pages[TASKS_MEMORY_KINDS];
};
WIRE_SIZE(struct tasks_thread, 24 + 8 * TASKS_SUMS + 8 * TASKS_MEMORY_KINDS);

/* Of a process, whose threads may all be gone. It has used `ended` less `base`, and what its
 * present threads have. */
struct tasks_past {
	__u64 since_ns;
	__u64 signal;		 /* the address of the kernel's own: the process */
	__u64 role;		 /* enum followed_role, as last seen */
	struct tasks_sums ended; /* what its ended threads had */
	struct tasks_sums base;	 /* what it had when it became the present program */
};
WIRE_SIZE(struct tasks_past, 24 + 2 * 8 * TASKS_SUMS);

/* All that a program had, when its process became another one by exec. */
struct tasks_exec_record {
	struct traced_record head;
	__u32 role;
	__u32 reserved;
	struct tasks_sums sums;
};
WIRE_SIZE(struct tasks_exec_record, 32 + 8 * TASKS_SUMS);

#endif
