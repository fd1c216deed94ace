/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Is a process followed, and as what? For the programs of probes of the host group.
 *
 * A probe includes this header, derives from HostProbe (exporter/probes/frame/host_probe.h), which
 * makes its maps of these names the shared ones, and asks in its programs:
 *
 *   struct followed *process = followed_process(task);
 *   if (!process)
 *           return 0;
 *   count(task->tgid, process->since_ns, role_of(process));
 *
 * A process is (tgid, since_ns): with this key its aggregator asks its ProcessTable for the labels.
 * At sched_process_exit of each thread and after it, the entry is still there; ends_process() says
 * whether this thread's end is the process's. At sched_process_exec, the entry is already the next
 * program's. A process that is not followed costs a look at one word of the filter. */
#ifndef GPUSNOOP_FOLLOWED_BPF_H
#define GPUSNOOP_FOLLOWED_BPF_H

#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/followed.h"
#include "bpf/lib/processes/process_filter.bpf.h"

HASH_MAP(follow_procs, FOLLOWED_MAX_PROCESSES, __u32, struct followed);

struct process_filter follow_filter SEC(".maps");

/* The task's entry, even if it is not followed any more. NULL: there is none. */
static __always_inline struct followed *followed_entry(struct task_struct *task)
{
	struct followed *entry;
	__u32 key;

	if (!may_have_process(&follow_filter, task->tgid, &key))
		return NULL;
	key = task->tgid;
	entry = bpf_map_lookup_elem(&follow_procs, &key);
	if (!entry || entry->start_boottime_ns != task->group_leader->start_boottime)
		return NULL;
	return entry;
}

/* NULL: the task's process is not followed. */
static __always_inline struct followed *followed_process(struct task_struct *task)
{
	struct followed *entry = followed_entry(task);

	return entry && entry->reasons ? entry : NULL;
}

static __always_inline enum followed_role role_of(const struct followed *process)
{
	return process->reasons & (FOLLOWED_CUDA | FOLLOWED_NAMED) ? FOLLOWED_GPU : FOLLOWED_WORKER;
}

/* At sched_process_exit: is this the end of the process? It is for one thread only. */
static __always_inline bool ends_process(const struct followed *process, struct task_struct *task)
{
	return process->ended_ns && process->ender == (__u32)task->pid;
}

#endif
