/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The ends of followed processes, and the signals that they get. */
#ifndef GPUSNOOP_HOST_LIFE_H
#define GPUSNOOP_HOST_LIFE_H

#include "bpf/lib/processes/followed.h"

/* The values of the label `sender`. */
enum life_sender {
	LIFE_SELF,    /* the process itself */
	LIFE_PROCESS, /* another one */
	LIFE_KERNEL,  /* for a fault, a timer, a child's end, a terminal, lack of memory */
	LIFE_SENDERS,
};

#define LIFE_SIGNALS 65 /* their numbers begin with 1 */

/* Counts of signals. */
struct life_key {
	__u64 since_ns;
	__u32 tgid;
	__u16 signal;
	__u8 sender; /* enum life_sender */
	__u8 role;   /* enum followed_role */
};
WIRE_SIZE(struct life_key, 16);

/* Who sent a signal. */
struct life_origin {
	__u32 sender; /* enum life_sender */
	__u32 tgid;   /* of another process; else 0 */
	char comm[PROCESS_COMM_BYTES];
};
WIRE_SIZE(struct life_origin, 8 + PROCESS_COMM_BYTES);

enum life_record_type {
	LIFE_EXIT,	/* struct life_exit_record */
	LIFE_SIGNAL,	/* struct life_signal_record: in a trace */
	LIFE_LAST_CALL, /* struct life_last_call_record */
};

struct life_exit_record {
	struct traced_record head;
	__u32 reasons;	     /* enum followed_reason */
	__u32 wait_status;   /* as wait() has it */
	__u64 lifetime_ns;   /* since the process began */
	__u32 out_of_memory; /* 1: the kernel chose it as it had no memory left */
	__u32 has_origin;    /* 1: of the signal that ended it */
	struct life_origin origin;
	__u64 cuda_since_ns; /* these two as in struct followed */
	__u64 last_call;
};
WIRE_SIZE(struct life_exit_record, 24 + 8 + 8 + 8 + sizeof(struct life_origin) + 16);

/* A thread of the process ended after the record of the process's end was sent, so its last call is
 * not in there. */
struct life_last_call_record {
	struct traced_record head;
	__u64 cuda_since_ns;
	__u64 last_call;
};
WIRE_SIZE(struct life_last_call_record, 24 + 16);

struct life_signal_record {
	struct traced_record head;
	__u32 reasons;
	__u32 signal;
	struct life_origin origin;
};
WIRE_SIZE(struct life_signal_record, 24 + 8 + sizeof(struct life_origin));

#endif
