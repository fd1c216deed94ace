/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The processes that kernel-side probes trace. */
#ifndef GPUSNOOP_TARGET_H
#define GPUSNOOP_TARGET_H

#include "bpf/lib/processes/process.h"

enum target_kind {
	TARGET_GPU_PROCESSES = 1, /* processes in the CUDA probe's table */
	TARGET_CONFIGURED = 2,	  /* processes in the table of targets */
	TARGET_EVERYTHING = 4,
};

#define TARGET_MAX_PROCESSES 16384

/* How each value in the CUDA probe's table of processes begins (struct cuda_live_process). */
struct gpu_process {
	__u64 since_ns;		 /* when it made its first CUDA call, CLOCK_MONOTONIC */
	__u64 start_boottime_ns; /* as below */
};
WIRE_SIZE(struct gpu_process, 16);

/* The table of targets, by tgid: processes that the configuration names. */
struct target {
	__u64 since_ns;		 /* when it became one, CLOCK_MONOTONIC */
	__u64 start_boottime_ns; /* of the process, perhaps as whole clock ticks: distinguishes
				  * processes with the same id */
	__u64 inherited;	 /* 1: its children are targets, too */
};
WIRE_SIZE(struct target, 24);

/* /proc rounds a start time down by less than this. */
#define TARGET_CLOCK_TICK_NS 10000000

/* A glob for names of processes, as a table of steps. State bit i: the first i of its characters,
 * not counting stars, have matched. Each byte of the name makes the next state:
 *   (state << 1 & next[byte]) | (state & stays[byte])
 * begin with 1; it matches when bit `whole` is set at the end. A NUL changes nothing. */
#define TARGET_PATTERNS 16 /* the exporter compares names with further patterns */
struct target_pattern {
	__u32 next[256];
	__u32 stays[256];
	__u32 whole;
	__u32 reserved;
};
WIRE_SIZE(struct target_pattern, 2 * 4 * 256 + 8);

/* Processes whose children are targets. */
#define TARGET_PARENTS 16

/* A process has become another program: the exporter decides whether the configuration names it.
 */
struct target_exec_record {
	__u32 tgid;
	__u32 reserved;
	struct process_identity identity;
	struct process_cgroup cgroup;
};
WIRE_SIZE(struct target_exec_record,
	  8 + sizeof(struct process_identity) + sizeof(struct process_cgroup));

#endif
