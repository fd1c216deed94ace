/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The CUDA call that each thread made last, noted when the thread ends: the probe `host_life` says
 * of an ended process what it did last. A call itself pays nothing for it. */
#ifndef GPUSNOOP_CUDA_LAST_CALLS_BPF_H
#define GPUSNOOP_CUDA_LAST_CALLS_BPF_H

#include "bpf/cuda/counted_launches/nested.bpf.h"
#include "bpf/lib/open_calls.bpf.h"

_Static_assert(CUDA_TRACED_FUNCTIONS <= LAST_CALL_FUNCTIONS, "a function is bits of a word");

/* A try fails if another thread of the process, which ends at this moment on another CPU, notes an
 * older call in between. */
#define LAST_CALL_TRIES 64

/* The thread's outermost call stays in its state when it has returned. 0: it made none. */
static __always_inline __u64 last_call_of(struct task_struct *task, const struct thread *thread)
{
	const struct call *call = &thread->open.call[0];
	bool is_open = thread->open.depth &&
		       is_inside(task, call->sp, READ_REGISTER(CALL_SP(user_registers(task))));

	if (!call->started_ns)
		return 0;
	return LAST_CALL(call->started_ns, is_open,
			 CUDA_COOKIE_FUNCTION(call->function) & ~CUDA_FUNCTION_FLAGS);
}

static __always_inline void keep_newest_call(struct followed *process, __u64 call)
{
	__u64 kept = *(volatile __u64 *)&process->last_call;

	for (int i = 0; i < LAST_CALL_TRIES && kept < call; i++) {
		__u64 before = __sync_val_compare_and_swap(&process->last_call, kept, call);

		if (before == kept)
			break;
		kept = before;
	}
}

/* The current thread ends, or becomes another program. */
static __always_inline void note_last_call(struct task_struct *task)
{
	struct followed *process;
	struct thread *thread;

	if (!follow || !task->bpf_storage)
		return;
	thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);
	if (!thread || !thread->since_ns)
		return;
	process = bpf_map_lookup_elem(&follow_procs, &thread->tgid);
	if (!process || process->start_boottime_ns != task->group_leader->start_boottime)
		return;
	/* Both before this thread looks whether the process has ended already, in host_life. */
	__sync_lock_test_and_set(&process->cuda_since_ns, thread->since_ns);
	keep_newest_call(process, last_call_of(task, thread));
}

static __always_inline void end_thread(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);

	if (thread) {
		drop_cut_off(thread);
		hand_over_launches(thread);
	}
	note_last_call(task);
	forget_thread(task);
}

#endif
