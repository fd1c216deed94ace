/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reads the identity of the current process, and takes calls from its budget in a ring. */
#ifndef GPUSNOOP_PROCESS_BPF_H
#define GPUSNOOP_PROCESS_BPF_H

#include "bpf/lib/process.h"

/* Calls a thread takes from its process's budget at a time, so that the budget costs next to
 * nothing. */
#define CALLS_PER_LEASE	 64
#define BUDGET_WINDOW_NS 100000000 /* 100 ms */

static __always_inline struct kernfs_node *directory_above(struct kernfs_node *node)
{
	if (bpf_core_field_exists(node->__parent))
		return node->__parent;
	return ((struct kernfs_node___before_6_15 *)node)->parent;
}

static __always_inline void fill_cgroup(struct process_identity *identity, struct task_struct *task)
{
	struct kernfs_node *node = task->cgroups->dfl_cgrp->kn;
	struct kernfs_node *parent = directory_above(node);

	identity->cgroup[0] = identity->cgroup_parent[0] = 0;
	bpf_probe_read_kernel_str(identity->cgroup, sizeof(identity->cgroup), node->name);
	if (parent)
		bpf_probe_read_kernel_str(identity->cgroup_parent, sizeof(identity->cgroup_parent),
					  parent->name);
}

/* Of the calling thread, as it makes its process's first traced call. */
static __always_inline __u32 work_of_system_calls(struct task_struct *task)
{
	/* Not on a kernel with entry code of the architecture's own (arm64, 32-bit). */
	if (!bpf_core_field_exists(task->thread_info.syscall_work))
		return 0;
	return task->thread_info.syscall_work &
	       (SYSTEM_CALLS_TRACED | SYSTEM_CALLS_EMULATED | SYSTEM_CALLS_DISPATCHED);
}

static __always_inline void fill_identity(struct process_identity *identity,
					  struct task_struct *task)
{
	identity->start_boottime_ns = task->group_leader->start_boottime;
	identity->ppid = task->group_leader->real_parent->tgid;
	identity->system_calls = work_of_system_calls(task);
	identity->uid = task->cred->uid.val;
	identity->execs = task->group_leader->self_exec_id;
	bpf_probe_read_kernel(identity->comm, sizeof(identity->comm), task->group_leader->comm);
	fill_cgroup(identity, task);
}

/* Takes calls for a thread from its process's budget, as of a call's end. False: the budget is used
 * up. */
static __always_inline bool take_lease(struct call_budget *budget, __u64 *lease, __u64 ended_ns,
				       __u64 per_second)
{
	/* Another thread may have begun the window a moment after our call ended. */
	if ((__s64)(ended_ns - budget->window_started_ns) >= BUDGET_WINDOW_NS) {
		budget->window_started_ns = ended_ns;
		budget->window_calls = 0;
	}
	if (budget->window_calls >= per_second / (1000000000 / BUDGET_WINDOW_NS) + 1)
		return false;
	__sync_fetch_and_add(&budget->window_calls, CALLS_PER_LEASE);
	*lease = CALLS_PER_LEASE - 1;
	return true;
}

#endif
