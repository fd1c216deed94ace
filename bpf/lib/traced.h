/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a probe of the kernel's side tells of the processes that it traces. */
#ifndef GPUSNOOP_TRACED_H
#define GPUSNOOP_TRACED_H

#include "bpf/lib/process.h"

enum traced_record_type {
	TRACED_CAME, /* struct traced_came_record */
	TRACED_WENT, /* struct traced_record: it ended, or became another program by exec */
};

/* Other records of the same ring begin in this way too, and have other types. */
struct traced_record {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u64 since_ns;
	__u32 tgid;
	__u32 type;
};
WIRE_SIZE(struct traced_record, 24);

struct traced_came_record {
	struct traced_record head;
	struct process_identity identity;
};
WIRE_SIZE(struct traced_came_record, 24 + sizeof(struct process_identity));

#endif
