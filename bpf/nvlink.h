/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The contract of the probe `nvlink`: calls of three helpers inside the NVIDIA driver, which it
 * uses when it trains links and answers ioctls. They are not NVLink traffic. */
#ifndef GPUSNOOP_NVLINK_H
#define GPUSNOOP_NVLINK_H

#include "bpf/lib/processes/process.h"

/* The attach cookie. */
enum nvlink_op {
	NVLINK_STRCPY, /* nvlink_strcpy(char *to, const char *from) */
	NVLINK_MEMCPY, /* nvlink_memcpy(void *to, const void *from, size) */
	NVLINK_MEMSET, /* nvlink_memset(void *to, int byte, size) */
	NVLINK_OP_COUNT,
};

#define NVLINK_STRING_BYTES 4096 /* longer strings count with this length */

#define NVLINK_IN_INTERRUPT 1U /* not on behalf of a process: the identity is empty */

struct nvlink_record {
	__u64 ended_ns; /* CLOCK_MONOTONIC */
	__u64 duration_ns;
	__u64 bytes; /* of a string with its NUL */
	__u32 op;    /* enum nvlink_op */
	__u32 tgid;
	__u32 tid;
	__u32 flags; /* NVLINK_* */
	struct process_identity identity;
};
WIRE_SIZE(struct nvlink_record, 3 * 8 + 4 * 4 + sizeof(struct process_identity));

/* The first call of each thread, in each program that it runs. */
struct nvlink_first_record {
	struct nvlink_record call;
	struct process_details details;
};
WIRE_SIZE(struct nvlink_first_record,
	  sizeof(struct nvlink_record) + sizeof(struct process_details));

#endif
