/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The waits of the threads of followed processes, but for launching ones, which have them in their
 * accounts. A thread that becomes a launching one keeps what it has here. */
#ifndef GPUSNOOP_HOST_TIME_WAITS_BPF_H
#define GPUSNOOP_HOST_TIME_WAITS_BPF_H

#include "bpf/host_time/blocked.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"
#include "bpf/lib/guard.bpf.h"

struct waits_account {
	/* Odd while it changes, and after the thread's end: a reader must try again. */
	__u64 sequence;
	struct host_process process;
	struct departure left;
	struct host_waiter waiter; /* scratch, as are the others but for the last */
	struct host_file_key file;
	struct time_off off;
	struct host_waits waits;
};

THREAD_MAP(htime_waits, struct waits_account);

/* Of ended threads, by process. The entry of process 0 is of the threads whose process found no
 * room. */
ON_DEMAND_MAP(htime_past, FOLLOWED_MAX_PROCESSES, struct host_waiter, struct host_waits);

static const struct host_waits no_waits;

static __always_inline void add_wait(struct waits_account *account, struct task_struct *task,
				     __u64 off_ns)
{
	struct host_waits *waits = &account->waits;
	struct time_off *off = &account->off;
	__u32 state = account->left.state;

	split_off(off, &account->left, task, off_ns);
	barrier_var(state);
	if (state < HOST_STATE_COUNT)
		waits->ns[state] += off->blocked_ns;
	waits->ns[HOST_STATE_throttled] += off->throttled_ns;
	waits->ns[HOST_STATE_runnable] += off->ready_ns;
	waits->latency_ns += off->ready_ns;
	waits->latencies[latency_bucket(off->ready_ns)] += 1;
	if (!add_file_wait(&account->file, &account->process, &account->left, off->blocked_ns))
		waits->file_waits_lost += 1;
	waits->settled += 1;
}

static __always_inline void add_run(struct waits_account *account, struct task_struct *task)
{
	account->waits.ns[HOST_STATE_running] += task->se.sum_exec_runtime - account->left.ran_ns;
}

/* The thread has left a CPU before, and since then it was off it, then on it. */
static __always_inline void settle_wait(struct waits_account *account, struct task_struct *task,
					__u64 now_ns)
{
	const struct departure *left = &account->left;
	__u64 on_ns;

	if (!left->at_ns)
		return;
	on_ns = on_cpu_ns(left, task, now_ns, task->se.sum_exec_runtime - left->ran_ns);
	add_run(account, task);
	add_wait(account, task, off_cpu_ns(left, now_ns, on_ns));
}

/* The current thread, which is no launching one, leaves its CPU. */
static __always_inline void thread_leaves(struct task_struct *task, bool is_ready)
{
	struct waits_account *account = bpf_task_storage_get(&htime_waits, task, NULL, 0);
	__u64 now_ns;

	if (!account)
		return;
	change_sequence(account);
	now_ns = task->se.cfs_rq->rq->clock;
	settle_wait(account, task, now_ns);
	note_departure(&account->left, task, now_ns, is_ready);
	account->waits.opened += 1;
	change_sequence(account);
}

/* The current thread leaves its CPU for the first time since it is a launching one. */
static __always_inline void last_wait_ends(struct task_struct *task)
{
	struct waits_account *account = bpf_task_storage_get(&htime_waits, task, NULL, 0);

	if (!account || !account->left.at_ns)
		return;
	change_sequence(account);
	settle_wait(account, task, task->se.cfs_rq->rq->clock);
	account->left.at_ns = 0;
	change_sequence(account);
}

/* What the thread waits for is counted from now on. */
static __always_inline void begin_waits(struct waits_account *account,
					const struct followed *process, __u32 tgid)
{
	bpf_probe_read_kernel(&account->waits, sizeof(account->waits), &no_waits);
	account->left.at_ns = 0;
	account->process.tgid = tgid;
	account->process.since_ns = process->since_ns;
}

/* NULL: `process` is, or there is no memory: then the next reading tries again. */
static __always_inline struct waits_account *waits_of(struct task_struct *task,
						      const struct followed *process)
{
	struct waits_account *account;

	if (!process)
		return NULL;
	account = bpf_task_storage_get(&htime_waits, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (account && account->process.since_ns != process->since_ns)
		begin_waits(account, process, task->tgid);
	return account;
}

/* The account's process may be the program before the present one. */
static __always_inline void fill_ended_waiter(struct waits_account *account,
					      struct task_struct *task)
{
	struct host_waiter *waiter = &account->waiter;
	struct followed *process = followed_entry(task);

	waiter->since_ns = account->process.since_ns;
	waiter->tgid = account->process.tgid;
	waiter->role = FOLLOWED_WORKER;
	waiter->root = 0;
	if (!process)
		return;
	waiter->root = process->root;
	waiter->role =
	    process->since_ns == waiter->since_ns ? role_of(process) : process->former_role;
}

static __always_inline struct host_waits *past_waits(const struct host_waiter *waiter)
{
	struct host_waits *past = bpf_map_lookup_elem(&htime_past, waiter);

	if (past)
		return past;
	bpf_map_update_elem(&htime_past, waiter, &no_waits, BPF_NOEXIST);
	return bpf_map_lookup_elem(&htime_past, waiter);
}

static __always_inline void add_to_past_waits(struct waits_account *account)
{
	struct host_waits *past = past_waits(&account->waiter);
	const __u64 *from = (const __u64 *)&account->waits;

	if (!past) {
		account->waiter.since_ns = account->waiter.tgid = 0;
		past = past_waits(&account->waiter);
	}
	if (!past)
		return;
	for (__u32 i = 0; i < HOST_WAIT_WORDS; i++)
		if (from[i])
			__sync_fetch_and_add(&((__u64 *)past)[i], from[i]);
}

/* The current thread ends, or becomes another program. */
static __always_inline void end_waits(struct task_struct *task)
{
	struct waits_account *account;

	if (!task->bpf_storage)
		return;
	account = bpf_task_storage_get(&htime_waits, task, NULL, 0);
	if (!account)
		return;
	change_sequence(account); /* and never again */
	if (account->left.at_ns) {
		add_run(account, task);
		add_wait(account, task, task->sched_info.last_arrival - account->left.at_ns);
	}
	fill_ended_waiter(account, task);
	add_to_past_waits(account);
	bpf_task_storage_delete(&htime_waits, task);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(htime_fork, struct task_struct *parent, struct task_struct *child)
{
	tracepoint_guard_begin();
	waits_of(child, followed_process(child));
	tracepoint_guard_end();
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(htime_exec, struct task_struct *task)
{
	tracepoint_guard_begin();
	end_waits(task);
	waits_of(task, followed_process(task));
	tracepoint_guard_end();
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(htime_exit, struct task_struct *task)
{
	tracepoint_guard_begin();
	end_waits(task);
	tracepoint_guard_end();
	return 0;
}

#endif
