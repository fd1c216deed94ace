/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* How long block devices take for the requests that followed processes issue. */
#ifndef GPUSNOOP_HOST_BLOCK_H
#define GPUSNOOP_HOST_BLOCK_H

#include "bpf/lib/processes/followed.h"
#include "bpf/lib/traced.h"

/* The values of the label `op`. */
enum block_operation {
	BLOCK_READ,
	BLOCK_WRITE,
	BLOCK_FLUSH,
	BLOCK_DISCARD,
	BLOCK_OTHER,
	BLOCK_OPERATIONS,
};

/* Upper bounds of durations, in nanoseconds, inclusive. One more bucket is for longer ones. */
#define BLOCK_BOUNDS                                                                               \
	{50000,	   100000,   250000,   500000,	  1000000,   2500000,	 5000000,                  \
	 10000000, 25000000, 50000000, 100000000, 250000000, 1000000000, 5000000000}
#define BLOCK_BUCKETS 15

/* A device as the kernel packs it (MKDEV in include/linux/kdev_t.h). */
#define BLOCK_MINOR_BITS 20

struct block_key {
	__u64 since_ns;
	__u32 tgid;
	__u32 device;
	__u16 operation; /* enum block_operation */
	__u16 role;	 /* enum followed_role */
	__u32 unused;
};
WIRE_SIZE(struct block_key, 24);

struct block_times {
	__u64 durations[BLOCK_BUCKETS];
	__u64 nanoseconds;
	__u64 bytes; /* of requests that succeeded */
};
WIRE_SIZE(struct block_times, 8 * BLOCK_BUCKETS + 16);

/* A request that has ended, for a trace. */
struct block_record {
	struct traced_record head;
	__u64 took_ns;	 /* since the driver got it */
	__u64 queued_ns; /* before that, in a queue; 0: the driver got it at once */
	__u64 bytes;
	__u32 tid; /* the thread that made it */
	__u32 device;
	__u16 operation; /* enum block_operation */
	__u16 role;	 /* enum followed_role */
	__s32 error;	 /* a blk_status_t, before 5.16 a negative errno; 0: it succeeded */
};
WIRE_SIZE(struct block_record, 24 + 40);

#endif
