/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The part of the probe `host_time` that only these programs can do: they see which threads submit
 * work, and when their calls begin and end. */
#ifndef GPUSNOOP_CUDA_TIMES_BPF_H
#define GPUSNOOP_CUDA_TIMES_BPF_H

#include "bpf/cuda/launch_gaps.bpf.h"
#include "bpf/cuda/threads.bpf.h"
#include "bpf/host_time/accounts.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"

/* If not, the maps of accounts do not exist. */
const volatile bool keep_times = false;

static __always_inline bool is_submission(__u64 cookie)
{
	return CUDA_IS_LAUNCH(CUDA_COOKIE_OPERATION(cookie)) ||
	       CUDA_IS_COPY(CUDA_COOKIE_OPERATION(cookie));
}

/* Makes the current thread a launching one, if the call that begins is a submission. Without memory
 * for its account, the next submission tries again. */
static __always_inline void begin_times(struct thread *thread)
{
	struct followed *process;
	struct host_account *account;

	if (!is_submission(thread->cookie))
		return;
	account = bpf_task_storage_get(&cuda_times, bpf_get_current_task_btf(), NULL,
				       BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!account)
		return;
	process = bpf_map_lookup_elem(&follow_procs, &thread->tgid);
	if (!process)
		return; /* that table has no room: it counts that */
	account->process.since_ns = process->since_ns;
	account->process.tgid = thread->tgid;
	account->device.device = thread->chosen.ordinal_plus_1 - 1;
	account->since_ns = thread->in_calls.since_ns = bpf_ktime_get_ns();
}

/* Adds the time of the outermost call, which ended at thread->ended_ns, or can no longer return. */
static __always_inline void add_call_time(struct thread *thread)
{
	const struct call *call = &thread->open.call[0];
	struct in_calls *in_calls = &thread->in_calls;
	__u64 since_ns = in_calls->since_ns;

	if (!since_ns)
		return;
	if (since_ns < call->started_ns)
		since_ns = call->started_ns;
	in_calls->ns[CUDA_COOKIE_PHASE(call->function)] += thread->ended_ns - since_ns;
}

static __always_inline void end_call_times(struct thread *thread)
{
	if (!thread->in_calls.since_ns)
		return;
	add_call_time(thread);
	end_gap(thread);
}

static __always_inline struct host_times *past_times(const struct host_process *process)
{
	struct host_times *past = bpf_map_lookup_elem(&cuda_times_past, process);

	if (past)
		return past;
	bpf_map_update_elem(&cuda_times_past, process, &no_times, BPF_NOEXIST);
	return bpf_map_lookup_elem(&cuda_times_past, process);
}

static __always_inline void add_up(struct host_times *sum, const struct host_times *times)
{
	__u64 *to = (__u64 *)sum;
	const __u64 *from = (const __u64 *)times;

	for (__u32 i = 0; i < HOST_TIME_WORDS; i++)
		if (from[i])
			__sync_fetch_and_add(&to[i], from[i]);
}

static __always_inline void add_last_call(struct host_account *account, struct thread *thread)
{
	if (thread->open.depth) {
		thread->ended_ns = account->since_ns + account->times.wall_ns;
		add_call_time(thread);
	}
	bpf_probe_read_kernel(account->times.call_ns, sizeof(account->times.call_ns),
			      thread->in_calls.ns);
}

static __always_inline void add_to_past(struct host_account *account)
{
	struct host_times *past = past_times(&account->process);

	if (!past) {
		account->process.since_ns = account->process.tgid = 0;
		past = past_times(&account->process);
	}
	if (past)
		add_up(past, &account->times);
}

/* The current thread ends, or becomes another program. */
static __always_inline void end_times(struct task_struct *task)
{
	struct host_account *account;
	struct thread *thread;

	if (!task->bpf_storage)
		return;
	account = bpf_task_storage_get(&cuda_times, task, NULL, 0);
	if (!account)
		return;
	change_sequence(account); /* and never again */
	account->times.wall_ns = bpf_ktime_get_ns() - account->since_ns;
	if (account->left.at_ns) {
		add_off(account, task, task->sched_info.last_arrival - account->left.at_ns);
		account->times.settled += 1;
	}
	thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);
	if (thread)
		add_last_call(account, thread);
	hand_over_device(account);
	add_to_past(account);
	bpf_task_storage_delete(&cuda_times, task);
}

/* These run before END_PROGRAMS, which forget the thread's open call. */
#define END_TIMES_PROGRAMS()                                                                       \
	SEC("tp_btf/sched_process_exit")                                                           \
	int BPF_PROG(cuda_times_exit, struct task_struct *task)                                    \
	{                                                                                          \
		end_times(task);                                                                   \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("tp_btf/sched_process_exec")                                                           \
	int BPF_PROG(cuda_times_exec, struct task_struct *task)                                    \
	{                                                                                          \
		end_times(task);                                                                   \
		return 0;                                                                          \
	}

#endif
