/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The records that a kernel-side probe sends of the processes it traces. */
#ifndef GPUSNOOP_TRACED_H
#define GPUSNOOP_TRACED_H

#include "bpf/lib/processes/process.h"

enum traced_record_type {
	PROCESS_STARTED, /* struct traced_start_record */
	PROCESS_ENDED,	 /* struct traced_end_record: it ended, or became another program by exec */
};

/* Other records of the same ring begin in this way too, and have other types. */
struct traced_record {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u64 since_ns;
	__u32 tgid;
	__u32 type;
};
WIRE_SIZE(struct traced_record, 24);

struct traced_end_record {
	struct traced_record head;
	__u64 cost_ns; /* as in struct process_entry */
	__u64 run_ns;  /* what its threads have run */
};
WIRE_SIZE(struct traced_end_record, 40);

struct traced_start_record {
	struct traced_record head;
	struct process_identity identity;
	struct process_details details;
};
WIRE_SIZE(struct traced_start_record,
	  24 + sizeof(struct process_identity) + sizeof(struct process_details));

#endif
