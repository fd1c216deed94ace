/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Threads that end inside of a traced call. */
#ifndef GPUSNOOP_THREAD_ENDS_BPF_H
#define GPUSNOOP_THREAD_ENDS_BPF_H

#include "bpf/lib/cost.bpf.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/open_calls.bpf.h"

/* A call that the current thread was inside of for so long when it ended is reported; 0: none. */
const volatile __u64 unreturned_after_ns = 0;

/* Defines forget_thread(), which forgets the calls that the current thread will never return from.
 * `threads` is the probe's task storage, `processes` its table of processes; `calls`, an expression
 * of `thread`, is how many are open; `report(task, thread)` sends a record of each in
 * `thread->open` that was open for so long. */
#define FORGET_THREAD(threads, processes, calls, report)                                           \
	static __always_inline void forget_thread(struct task_struct *task)                        \
	{                                                                                          \
		struct thread *thread = bpf_task_storage_get(&(threads), task, NULL, 0);           \
                                                                                                   \
		if (!thread)                                                                       \
			return;                                                                    \
		if (thread->open.depth && unreturned_after_ns)                                     \
			report(task, thread);                                                      \
		if (calls)                                                                         \
			ACCOUNT(stale, calls);                                                     \
		if (thread->cost_ns)                                                               \
			hand_over_cost(&(processes), &thread->tgid, &thread->cost_ns);             \
		bpf_task_storage_delete(&(threads), task);                                         \
	}

#endif
