/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The identity of a process in records, and its budget of records. */
#ifndef GPUSNOOP_PROCESS_H
#define GPUSNOOP_PROCESS_H

#include "bpf/lib/wire.h"

#define PROCESS_COMM_BYTES 16

struct process_identity {
	__u64 start_boottime_ns; /* CLOCK_BOOTTIME, as field 22 of /proc/PID/stat */
	__u32 ppid;	    /* the process that started it or adopted it, when this was filled */
	__u32 system_calls; /* interception of its system calls: SYSTEM_CALLS_* */
	__u32 uid;	    /* its real user id, as the host counts them */
	__u32 execs;	    /* changes with each exec */
	char comm[PROCESS_COMM_BYTES]; /* of the process, not of the calling thread */
};
WIRE_SIZE(struct process_identity, 8 + 16 + 16);

#define PROCESS_ARGUMENTS_HEAD 256
#define PROCESS_ARGUMENTS_TAIL 256 /* a file name and a NUL */
#define PROCESS_ARGUMENTS_REST 320

/* What is read of a process's arguments, which lie one behind the other, each with a NUL: the first
 * bytes of them; and if the head cuts an argument, the end of this argument and what follows. */
struct process_arguments {
	__u32 total;   /* bytes of all arguments; 0: they could not be read */
	__u32 rest_at; /* where the rest begins in them */
	__u16 head_bytes;
	__u16 rest_bytes;
	__u32 reserved;
	char head[PROCESS_ARGUMENTS_HEAD];
	char rest[PROCESS_ARGUMENTS_REST];
};
WIRE_SIZE(struct process_arguments, 16 + 256 + 320);

#define PROCESS_PATH_LEVELS 16
#define PROCESS_PATH_BYTES  768
#define PROCESS_NAME_BYTES  128 /* of a directory, with a NUL; longer names are cut */

/* The path of a process's cgroup: in the v1 hierarchy of the freezer, if the process has a
 * directory there, else in v2. */
struct process_cgroup {
	__u16 bytes;	/* of the names */
	__u16 levels;	/* the number of names */
	__u16 not_root; /* bit i: root does not own the i-th directory */
	__u16 is_whole; /* the outermost directory is there, too */
	__u64 scratch[2];
	char names[PROCESS_PATH_BYTES]; /* the innermost first, each with a NUL */
};
WIRE_SIZE(struct process_cgroup, 4 * 2 + 2 * 8 + 768);

#define PROCESS_VARIABLE_BYTES 64

/* What is sent once of a process, as it is long. */
struct process_details {
	struct process_arguments arguments;
	/* "SLURM_JOB_ID=12" of its environment, with a NUL; empty: it was not found. */
	char slurm_job_id[PROCESS_VARIABLE_BYTES];
	struct process_cgroup cgroup;
};
WIRE_SIZE(struct process_details, 16 + 256 + 320 + 64 + sizeof(struct process_cgroup));

/* The first fields of a value in a probe's table of processes; its keys are tgids. */
struct process_entry {
	__u64 since_ns; /* when its first traced call was: it and the tgid are the process */
	__u64 start_boottime_ns;
	__u64 cost_ns; /* what probes on functions have cost it: bpf/lib/cost.h */
};
WIRE_SIZE(struct process_entry, 24);

/* Bits of the kernel's own enum syscall_work_bit (include/linux/thread_info.h). */
#define SYSTEM_CALLS_TRACED	(1U << 2) /* ptrace(PTRACE_SYSCALL) */
#define SYSTEM_CALLS_EMULATED	(1U << 3) /* ptrace(PTRACE_SYSEMU) */
#define SYSTEM_CALLS_DISPATCHED (1U << 5) /* prctl(PR_SET_SYSCALL_USER_DISPATCH) */

#define TRACED_PIDS 16 /* the most process ids that a trace can be limited to */

/* Calls that a process has recorded in the present tenth of a second. */
struct call_budget {
	__u64 window_started_ns;
	__u64 window_calls;
};

/* PID_MAX_LIMIT of 64-bit kernels (include/linux/threads.h), 4194304, in words of 64 bits. */
#define PROCESS_FILTER_WORDS 65536

#endif
