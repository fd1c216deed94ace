/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The contract of the probe `torch`: what PyTorch's allocators report of their memory. */
#ifndef GPUSNOOP_TORCH_H
#define GPUSNOOP_TORCH_H

#include "bpf/lib/traced.h"

/* The attach cookie: a function of libc10, by its arguments. A device is two bytes, its type and
 * its number, in one register. */
enum torch_function {
	/* reportMemoryUsageToProfiler(address, bytes, allocated, reserved, device) */
	TORCH_REPORTS_USAGE,
	/* reportMemoryUsageToProfiler(address, bytes, device), of PyTorch 1.8 */
	TORCH_REPORTS_USAGE_ONLY,
	/* reportOutOfMemoryToProfiler(bytes, allocated, reserved, device) */
	TORCH_REPORTS_OUT_OF_MEMORY,
	TORCH_FUNCTION_COUNT,
};

/* Record types after the types of bpf/lib/traced.h. */
enum torch_record_type {
	TORCH_USAGE = 16,
	TORCH_OUT_OF_MEMORY,
};

#define TORCH_STACK_FRAMES 32

/* Flags of a record. */
#define TORCH_HAS_TOTALS 1U
#define TORCH_SAMPLED	 2U /* one of the blocks that stand for all */

struct torch_record {
	struct traced_record head;
	__u64 address; /* of the block; 0 of TORCH_OUT_OF_MEMORY */
	__s64 bytes;   /* allocated, below 0 freed; of TORCH_OUT_OF_MEMORY, asked for in vain */
	/* All of the process on that device, after this call; 0 without TORCH_HAS_TOTALS. */
	__u64 allocated;
	__u64 reserved;
	__u64 caller;	  /* of an allocation: the address that the function returns to */
	__u64 python;	  /* the same: key in torch_pystacks, or PYTHON_STACK_... */
	__u64 weight;	  /* of a sampled allocation: the bytes that it stands for */
	__s32 stack;	  /* of an allocation: its key in torch_stacks; negative: none */
	__s8 device_type; /* c10::DeviceType */
	__s8 device;	  /* as the program numbers it; negative: the only one of its type */
	__u16 flags;
};
WIRE_SIZE(struct torch_record, 24 + 7 * 8 + 8);

/* With sampling, records are sent of some blocks only, and all calls are added up in tables. A
 * block of as many bytes as the rate is sampled always, and a smaller one with the probability
 * bytes / rate; then it stands for as many bytes as the rate. So the sum of weights is right on
 * average. */
#define TORCH_FIRST_RATE	 (4ULL << 20)
#define TORCH_MAX_RATE		 (1ULL << 31)
#define TORCH_SAMPLES_PER_SECOND 200

/* `random` is any number of 32 bits with the same probability. */
static inline __u32 torch_is_sampled(__u32 random, __u64 bytes, __u64 rate)
{
	return bytes >= rate || (rate * random) >> 32 < bytes;
}

static inline __u64 torch_weight(__u64 bytes, __u64 rate)
{
	return bytes >= rate ? bytes : rate;
}

/* A value of the table of sampled processes, by tgid. */
struct torch_sampling {
	__u64 since_ns;
	__u64
	    rate; /* bytes; it doubles while there are more samples than TORCH_SAMPLES_PER_SECOND */
	__u64 second_ns;      /* when the present second of these began */
	__u64 second_samples; /* in it */
	__u64 blocks;	      /* that are live and sampled */
	__u64 missed;	      /* blocks that should have been sampled and had no room */
	__u64 is_given_up;    /* set by the exporter: nothing is counted any more */
};
WIRE_SIZE(struct torch_sampling, 56);

/* Of a process and a device. */
struct torch_totals_key {
	__u64 since_ns;
	__u32 tgid;
	__s8 device_type;
	__s8 device;
	__u16 reserved;
};
WIRE_SIZE(struct torch_totals_key, 16);

struct torch_totals {
	/* As the allocator said last; 0 without TORCH_HAS_TOTALS. */
	__u64 allocated;
	__u64 reserved;
	__u64 peak; /* the most that it has said to be allocated */
	__u64 has_totals;
	__u64 allocations;
	__u64 allocation_bytes;
	__u64 frees;
	__u64 free_bytes;
};
WIRE_SIZE(struct torch_totals, 64);

/* Of a live sampled block, to the time of its record. */
struct torch_block_key {
	__u64 address;
	__u64 since_ns;
	__u32 tgid;
	__u32 reserved;
};
WIRE_SIZE(struct torch_block_key, 24);

#endif
