/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Is the current process a target? The probes share the tables: the CUDA probe's programs fill one
 * of them, targets.bpf.c and the exporter the other. */
#ifndef GPUSNOOP_TARGET_BPF_H
#define GPUSNOOP_TARGET_BPF_H

#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/process_filter.bpf.h"
#include "bpf/lib/processes/target.h"

/* enum target_kind, any of them */
const volatile __u32 target_kinds = TARGET_GPU_PROCESSES;

/* When the probe was attached, CLOCK_MONOTONIC. */
__u64 attached_ns = 0;

/* The table `processes` of the CUDA probe, whose values are longer: entered at the first CUDA call,
 * left at exit and exec. */
HASH_MAP(cuda_procs, TARGET_MAX_PROCESSES, __u32, struct gpu_process);

struct process_filter cuda_filter SEC(".maps");

HASH_MAP(target_procs, TARGET_MAX_PROCESSES, __u32, struct target);

/* Since when the task's process has been a GPU process; 0: it is none. */
static __always_inline __u64 gpu_process_since(struct task_struct *task)
{
	struct gpu_process *process;
	__u32 key;

	if (!may_have_process(&cuda_filter, task->tgid, &key))
		return 0;
	key = task->tgid;
	process = bpf_map_lookup_elem(&cuda_procs, &key);
	return process && process->start_boottime_ns == task->group_leader->start_boottime
		   ? process->since_ns
		   : 0;
}

/* Since when the configuration has named the task's process; 0: it does not. */
static __always_inline __u64 named_target_since(struct task_struct *task)
{
	struct target *target;
	__u32 key = task->tgid;

	target = bpf_map_lookup_elem(&target_procs, &key);
	return target && task->group_leader->start_boottime - target->start_boottime_ns <
			     TARGET_CLOCK_TICK_NS
		   ? target->since_ns
		   : 0;
}

/* Since when the task's process has been a target; 0: it is no target. */
static __always_inline __u64 target_since(struct task_struct *task)
{
	__u64 since_ns;

	if (target_kinds & TARGET_EVERYTHING)
		return attached_ns;
	if (target_kinds & TARGET_GPU_PROCESSES) {
		since_ns = gpu_process_since(task);
		if (since_ns)
			return since_ns;
	}
	return target_kinds & TARGET_CONFIGURED ? named_target_since(task) : 0;
}

/* Did the call or wait that ends now begin before its process was traced? A thread that started
 * after tracing began was seen from its start, which is the return of clone(). */
static __always_inline bool began_before_tracing(struct task_struct *task)
{
	__u64 since_ns = target_since(task);

	if (since_ns && since_ns < attached_ns)
		since_ns = attached_ns;
	return since_ns && task->start_time < since_ns;
}

#endif
