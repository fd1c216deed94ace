/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The locks of mappings that processes hold which map a file. */
#ifndef GPUSNOOP_MAPPER_LOCKS_H
#define GPUSNOOP_MAPPER_LOCKS_H

#include "bpf/lib/wire.h"

/* The lock of one process's mappings that was held when this was asked. A process that maps the
 * file several times has several of these. */
struct held_lock {
	__u64 memory; /* the address of its mm_struct: which process it is */
	/* The thread that may change the mappings: if this changes, the lock was free. 0: threads
	 * that only read them, of which one can take the lock before another gives it up. */
	__u64 holder;
	__u32 tgid; /* 0: the kernel does not say */
	__u32 unused;
};
WIRE_SIZE(struct held_lock, 24);

#endif
