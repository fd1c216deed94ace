/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* How long followed processes had to free memory themselves, before they got some. */
#ifndef GPUSNOOP_HOST_MEMORY_H
#define GPUSNOOP_HOST_MEMORY_H

#include "bpf/lib/processes/followed.h"

/* The values of the label `kind`. */
enum memory_stall {
	MEMORY_DIRECT,	   /* the machine's memory was used up */
	MEMORY_MEMCG,	   /* the cgroup's */
	MEMORY_COMPACTION, /* no free memory lay together */
	MEMORY_STALLS,
};

struct memory_key {
	__u64 since_ns;
	__u32 tgid;
	__u16 kind; /* enum memory_stall */
	__u16 role; /* enum followed_role */
};
WIRE_SIZE(struct memory_key, 16);

struct memory_stalls {
	__u64 nanoseconds;
	__u64 count;
};
WIRE_SIZE(struct memory_stalls, 16);

#endif
