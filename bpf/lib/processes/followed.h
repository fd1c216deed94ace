/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Followed processes: GPU processes, the processes that `targets` names, and what they start. The
 * probes of the host group count of these (docs/host.md). */
#ifndef GPUSNOOP_FOLLOWED_H
#define GPUSNOOP_FOLLOWED_H

#include "bpf/lib/traced.h"
#include "bpf/lib/wire.h"

/* Why a process is followed: bits. */
enum followed_reason {
	FOLLOWED_CUDA = 1,  /* its program has made a CUDA call */
	FOLLOWED_NAMED = 2, /* the configuration names it */
	FOLLOWED_CHILD = 4, /* a followed process started it: true until it ends, over each exec */
};

/* The values of the label `role`. A GPU process is also one that the configuration names. */
enum followed_role {
	FOLLOWED_GPU,
	FOLLOWED_WORKER,
	FOLLOWED_ROLES,
};

#define FOLLOWED_MAX_PROCESSES 16384

/* An entry of the table, by tgid. It stays until the kernel frees the process, so that the programs
 * of all probes find it while the process ends. */
struct followed {
	__u64 since_ns; /* when its program began to be followed: it and the tgid are the process */
	__u64 start_boottime_ns;
	__u64 ended_ns;	       /* 0: it has not ended */
	__u32 reasons;	       /* 0: it is not followed any more */
	__u32 root;	       /* the process that all this began with, perhaps itself */
	__u32 ender;	       /* the thread whose end was the process's end */
	__u32 former_role;     /* enum followed_role, of the program before */
	__u64 former_since_ns; /* of the program before, if it was followed; else 0 */
	__u64 submitted;       /* when, and what: bpf/cuda/launch_gaps.bpf.h; 0: nothing */
	/* Of its threads that have ended, by the programs of `cuda`; 0: none made a call. */
	__u64 cuda_since_ns; /* the process's, as that probe has it */
	__u64 last_call;     /* the newest, as below */
};
WIRE_SIZE(struct followed, 72);

/* A CUDA call in one word, so that threads which end side by side can keep the newest: when it
 * began, in units of 16 ns; whether its thread was inside of it at its end; and its function. */
#define LAST_CALL_FUNCTIONS 512
#define LAST_CALL(began_ns, is_inside, function)                                                   \
	((began_ns) >> 4 << 10 | (is_inside) * 512ULL | (function))
#define LAST_CALL_BEGAN_NS(word)  ((word) >> 10 << 4)
#define LAST_CALL_IS_INSIDE(word) ((word) >> 9 & 1)
#define LAST_CALL_FUNCTION(word)  ((word) & (LAST_CALL_FUNCTIONS - 1))

/* What became of a process. */
enum follow_record_type {
	FOLLOW_STARTED,	 /* struct follow_start_record: followed from now on */
	FOLLOW_PROMOTED, /* a worker has made its first CUDA call */
	FOLLOW_ENDED,
	FOLLOW_EXECED, /* it became another program, which is another process */
	FOLLOW_LEFT,   /* the configuration does not name it any more */
};

struct follow_record {
	struct traced_record head; /* `type` is a follow_record_type */
	__u32 reasons;		   /* of an end: until then */
	__u32 root;
};
WIRE_SIZE(struct follow_record, 32);

struct follow_start_record {
	struct follow_record head;
	struct process_identity identity;
	struct process_details details;
};
WIRE_SIZE(struct follow_start_record,
	  32 + sizeof(struct process_identity) + sizeof(struct process_details));

/* What the programs that enter processes count, per CPU. */
struct follow_counts {
	__u64 entered;	  /* processes to be followed, and ends and promotions of followed ones */
	__u64 events;	  /* of these, the ones whose record is in the ring */
	__u64 ring_full;  /* of these, the ones whose record found no room */
	__u64 table_full; /* of these, the processes that found no room in the table */
	__u64 gpu_processes; /* entered: some of their children may run already */
};
WIRE_SIZE(struct follow_counts, 40);

/* How often something happened to a followed process, and how long it took in all. */
struct counted_times {
	__u64 nanoseconds;
	__u64 count;
};
WIRE_SIZE(struct counted_times, 16);

#endif
