/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reads the identity of the current process, and takes calls from its budget in a ring. */
#ifndef GPUSNOOP_PROCESS_BPF_H
#define GPUSNOOP_PROCESS_BPF_H

#include "bpf/lib/processes/process.h"

/* Calls a thread takes from its process's budget at a time, so that the budget costs next to
 * nothing. */
#define CALLS_PER_LEASE	 64
#define BUDGET_WINDOW_NS 100000000 /* 100 ms */

/* What is read once of a process is read by helpers, not by following pointers from the task: for
 * each step of those, at each visit, the verifier of Linux 6.4 and later looks through all types of
 * the kernel for whether it may trust the next pointer, which takes a millisecond.
 *
 * Pointers are read into the record, as uprobe programs have hardly any stack. */
#define READ_INTO(scratch, pointer, field)                                                         \
	bpf_core_read((scratch), sizeof(void *), &(pointer)->field)

static __always_inline void read_directory_above(struct kernfs_node **node)
{
	if (bpf_core_field_exists((*node)->__parent))
		READ_INTO(node, *node, __parent);
	else
		READ_INTO(node, (struct kernfs_node___before_6_15 *)*node, parent);
}

/* Of the v2 hierarchy. */
static __always_inline void read_directory(void *node, struct task_struct *task)
{
	READ_INTO(node, task, cgroups);
	READ_INTO(node, *(struct css_set **)node, dfl_cgrp);
	READ_INTO(node, *(struct cgroup **)node, kn);
}

/* What is filled last. */
#define IDENTITY_SCRATCH(identity) ((void *)(identity)->comm)

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
	struct task_struct **leader = IDENTITY_SCRATCH(identity);
	struct cred **cred = IDENTITY_SCRATCH(identity);

	identity->system_calls = work_of_system_calls(task);
	READ_INTO(cred, task, cred);
	bpf_core_read(&identity->uid, sizeof(identity->uid), &(*cred)->uid.val);
	READ_INTO(leader, task, group_leader);
	bpf_core_read(&identity->start_boottime_ns, sizeof(identity->start_boottime_ns),
		      &(*leader)->start_boottime);
	bpf_core_read(&identity->execs, sizeof(identity->execs), &(*leader)->self_exec_id);
	READ_INTO(leader, *leader, real_parent);
	bpf_core_read(&identity->ppid, sizeof(identity->ppid), &(*leader)->tgid);
	READ_INTO(leader, task, group_leader);
	bpf_probe_read_kernel(identity->comm, sizeof(identity->comm), (*leader)->comm);
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
