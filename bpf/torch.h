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

#define TORCH_HAS_TOTALS 1U

struct torch_record {
	struct traced_record head;
	__u64 address; /* of the block; 0 of TORCH_OUT_OF_MEMORY */
	__s64 bytes;   /* allocated, below 0 freed; of TORCH_OUT_OF_MEMORY, asked for in vain */
	/* All of the process on that device, after this call; 0 without TORCH_HAS_TOTALS. */
	__u64 allocated;
	__u64 reserved;
	__u64 caller;	  /* of an allocation: the address that the function returns to */
	__s32 stack;	  /* of an allocation: its key in torch_stacks; negative: none */
	__s8 device_type; /* c10::DeviceType */
	__s8 device;	  /* as the program numbers it; negative: the only one of its type */
	__u16 flags;	  /* TORCH_HAS_TOTALS */
};
WIRE_SIZE(struct torch_record, 24 + 5 * 8 + 8);

#endif
