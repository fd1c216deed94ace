/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The profilers in a process: which of them attached to CUPTI and did not leave it.
 *
 * Profilers call CUPTI inside other calls, too: an injected one starts inside the process's first
 * call of CUDA, and its callbacks run inside all of them. So each thread has an open call of CUPTI
 * besides its open call of CUDA. Of CUPTI, too, only the outermost call counts: cuptiSubscribe
 * calls cuptiSubscribe_v2. */
#ifndef GPUSNOOP_CUDA_PROFILERS_BPF_H
#define GPUSNOOP_CUDA_PROFILERS_BPF_H

#include "bpf/cuda/process.bpf.h"

#define LAST_ACTIVITY 63

/* The thread's process has been entered, if there was room. */
static __always_inline long enter_profiler(struct thread *thread, struct pt_regs *regs)
{
	struct call *call;
	__u64 dead;

	if (thread->profiler.depth) {
		dead = call_drop_dead(bpf_get_current_task_btf(), &thread->profiler, regs);
		if (dead)
			ACCOUNT(stale, dead);
		if (thread->profiler.depth) {
			ACCOUNT(nested, 1);
			return 1;
		}
	}
	ACCOUNT(entered, 1);
	if (!thread->since_ns)
		return 1;
	call = call_begin(&thread->profiler, regs, thread->cookie);
	if (!call)
		return 1;
	call_start(call);
	return !!(call->function & CUDA_EXITS);
}

static __always_inline __u64 activity_of(const struct call *call)
{
	__u32 kind = argument(call, CUDA_ADDRESS);

	return 1ULL << (kind < LAST_ACTIVITY ? kind : LAST_ACTIVITY);
}

/* The subscriber may have subscribed before the probes were attached. */
static __always_inline void take_subscriber(struct cuda_live_process *process)
{
	if (process->subscribers > 0)
		__sync_fetch_and_sub(&process->subscribers, 1);
}

/* A call that succeeded sends no record: the table has its effect, and the exporter reads it. */
static __always_inline void note_profiler(struct cuda_live_process *process,
					  const struct call *call)
{
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_SUBSCRIBE:
		__sync_fetch_and_add(&process->subscribers, 1);
		break;
	case CUDA_UNSUBSCRIBE:
		take_subscriber(process);
		break;
	case CUDA_ENABLE_ACTIVITY:
		__sync_fetch_and_or(&process->activities, activity_of(call));
		break;
	case CUDA_DISABLE_ACTIVITY:
		__sync_fetch_and_and(&process->activities, ~activity_of(call));
		break;
	case CUDA_FINALIZE_PROFILER:
		__sync_lock_test_and_set(&process->subscribers, 0);
		__sync_lock_test_and_set(&process->activities, 0);
		break;
	}
}

static __always_inline void finish_profiler(struct thread *thread, const struct call *call)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);

	if (process)
		note_profiler(process, call);
	ACCOUNT(events, 1);
}

#endif
