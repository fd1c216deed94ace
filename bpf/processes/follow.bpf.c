// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Keeps the table of followed processes (bpf/lib/processes/followed.bpf.h). The programs of `cuda`
 * enter GPU processes, targets.bpf.c and the exporter say which processes the configuration names,
 * and the programs here enter those and what followed processes start. The programs run before the
 * ones of the probes, which are attached later. */
#define PROBE follow

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/processes/follow.bpf.h"
#include "bpf/lib/guard.bpf.h"
#include "bpf/lib/processes/target.bpf.h"

const volatile bool follow_descendants = true;
const volatile __u32 exporter_tgid = 0;

/* How far up an ancestor is looked for, of processes that ran before they could be followed. */
#define MAX_ANCESTORS 32

#define PF_KTHREAD 0x00200000

/* The exporter and its children are never followed. */
static __always_inline bool may_follow(struct task_struct *leader)
{
	return !(leader->flags & PF_KTHREAD) && (__u32)leader->tgid != exporter_tgid &&
	       (__u32)leader->real_parent->tgid != exporter_tgid;
}

static __always_inline bool is_named(struct task_struct *task)
{
	return named_target_since(task) != 0;
}

static __always_inline void on_fork(struct task_struct *parent, struct task_struct *child)
{
	struct followed *of_parent = follow_descendants ? followed_process(parent) : NULL;
	__u32 reasons = of_parent ? FOLLOWED_CHILD : 0;
	__u32 tgid = child->tgid;
	struct followed *fresh;

	if (is_named(child))
		reasons |= FOLLOWED_NAMED;
	if (!reasons || !may_follow(child))
		return;
	fresh = add_followed(child, &tgid, bpf_ktime_get_ns(), reasons,
			     of_parent ? of_parent->root : 0);
	if (fresh)
		send_follow_start(fresh, child);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(follow_fork, struct task_struct *parent, struct task_struct *child)
{
	if (child->tgid == parent->tgid)
		return 0;
	tracepoint_guard_begin();
	on_fork(parent, child);
	tracepoint_guard_end();
	return 0;
}

/* The next program is another process, which may not be followed. */
static __always_inline void on_exec(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	__u32 named = is_named(task) && may_follow(leader) ? FOLLOWED_NAMED : 0;
	struct followed *process = followed_entry(task);
	__u32 tgid = task->tgid;

	if (!process) {
		if (!named)
			return;
		bpf_task_storage_delete(&follow_refused, leader);
		process = add_followed(leader, &tgid, bpf_ktime_get_ns(), named, 0);
		if (process)
			send_follow_start(process, leader);
		return;
	}
	process->former_since_ns = process->reasons ? process->since_ns : 0;
	process->former_role = role_of(process);
	if (process->reasons)
		send_follow(process, task->tgid, FOLLOW_EXECED);
	process->since_ns = bpf_ktime_get_ns();
	process->cuda_since_ns = 0;
	process->last_call = 0;
	process->reasons = (process->reasons & FOLLOWED_CHILD) | named;
	if (process->reasons)
		send_follow_start(process, leader);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(follow_exec, struct task_struct *task)
{
	tracepoint_guard_begin();
	on_exec(task);
	tracepoint_guard_end();
	return 0;
}

static __always_inline void on_exit(struct task_struct *task)
{
	struct followed *process = followed_process(task);

	/* Two last threads can both see no other one alive: only one ends it. */
	if (!process || __sync_lock_test_and_set(&process->ended_ns, bpf_ktime_get_ns()))
		return;
	process->ender = task->pid;
	send_follow(process, task->tgid, FOLLOW_ENDED);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(follow_exit, struct task_struct *task)
{
	if (task->signal->live.counter)
		return 0;
	tracepoint_guard_begin();
	on_exit(task);
	tracepoint_guard_end();
	return 0;
}

/* Long after the exit of the process, when nothing refers to it any more. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(follow_free, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	if (task->pid != task->tgid || !followed_entry(task))
		return 0;
	take_from_process_filter(&follow_filter, tgid);
	bpf_map_delete_elem(&follow_procs, &tgid);
	return 0;
}

/* The nearest followed ancestor of a process. Read by helpers, as in
 * bpf/lib/processes/process.bpf.h. */
static __always_inline struct followed *followed_ancestor(struct task_struct *task)
{
	for (int i = 0; i < MAX_ANCESTORS; i++) {
		struct followed *process;
		__u32 tgid;

		task = BPF_CORE_READ(task, real_parent, group_leader);
		tgid = BPF_CORE_READ(task, tgid);
		if (tgid <= 1 || tgid == exporter_tgid)
			return NULL;
		process = bpf_map_lookup_elem(&follow_procs, &tgid);
		if (process && process->reasons &&
		    process->start_boottime_ns == BPF_CORE_READ(task, start_boottime))
			return process;
	}
	return NULL;
}

/* Why a running process is to be followed, as far as it can be seen from outside. */
static __always_inline __u32 reasons_of(struct task_struct *leader)
{
	return (gpu_process_since(leader) ? FOLLOWED_CUDA : 0) |
	       (is_named(leader) ? FOLLOWED_NAMED : 0);
}

static __always_inline void find_new(struct task_struct *leader)
{
	struct followed *ancestor = follow_descendants ? followed_ancestor(leader) : NULL;
	__u32 reasons = reasons_of(leader) | (ancestor ? FOLLOWED_CHILD : 0);
	__u32 tgid = leader->tgid;

	/* Its identity is in /proc. */
	if (reasons)
		add_followed(leader, &tgid, bpf_ktime_get_ns(), reasons,
			     ancestor ? ancestor->root : 0);
}

/* Follows the processes that run already. For each process of the machine, and then once more for
 * the descendants of those that the first time has found. */
SEC("iter/task")
int follow_find(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct followed *process;

	if (!task || task->pid != task->tgid || !task->mm || !may_follow(task))
		return 0;
	process = followed_entry(task);
	if (!process || !process->reasons) {
		find_new(task);
	} else if (is_named(task)) {
		__sync_fetch_and_or(&process->reasons, FOLLOWED_NAMED);
	} else if (process->reasons & FOLLOWED_NAMED) {
		if (process->reasons == FOLLOWED_NAMED)
			send_follow(process, task->tgid, FOLLOW_LEFT);
		__sync_fetch_and_and(&process->reasons, ~FOLLOWED_NAMED);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
