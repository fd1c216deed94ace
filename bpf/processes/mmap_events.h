/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A file that a process has mapped to execute it. */
#ifndef GPUSNOOP_MMAP_EVENTS_H
#define GPUSNOOP_MMAP_EVENTS_H

#include "bpf/processes/mappings.h"

struct mmap_event {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u32 tgid;
	__u32 unused;
	char name[MAPPING_NAME_BYTES]; /* the last part of its path */
};
WIRE_SIZE(struct mmap_event, 16 + MAPPING_NAME_BYTES);

#endif
