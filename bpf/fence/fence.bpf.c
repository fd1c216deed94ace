// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* DMA fences of the processes to trace, and their waits for any fence. A fence is followed by its
 * address, as some drivers give it its number later, when they emit it. Each tracepoint has two
 * programs: one gets the fence, the other the names of its driver and its timeline
 * (fence/records.bpf.h). */
#define PROBE fence

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/fence/fence.h"
#include "bpf/fence/records.bpf.h"
#include "bpf/lib/guard.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/target.bpf.h"
#include "bpf/lib/traced.bpf.h"

/* Nested waits: a fence that stands for others waits for them. */
#define MAX_WAITS 4

struct wait {
	__u64 fence; /* its address */
	__u64 started_ns;
};

struct thread {
	struct traced_thread traced;
	__u64 depth;
	struct wait waits[MAX_WAITS];
	struct fence_known fresh; /* scratch */
};

THREAD_MAP(fence_threads, struct thread);

/* The current thread, if its process is a target. */
static __always_inline struct thread *current_thread(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&fence_threads, task, NULL, 0);

	if (!thread)
		thread = bpf_task_storage_get(&fence_threads, task, NULL,
					      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_no_state], 1);
		return NULL;
	}
	if (!thread->traced.since_ns && !enter_traced(&thread->traced, task)) {
		ACCOUNT(entered, 1);
		return NULL;
	}
	return thread;
}

/* Notes the process of a fence. */
static __always_inline void begin_fence(struct dma_fence *fence)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 address = (__u64)fence;
	struct thread *thread;

	if (!target_since(task)) {
		/* Another process's fence. An old entry at its address is of a fence whose end was
		 * not seen. */
		bpf_map_delete_elem(&fence_known, &address);
		return;
	}
	thread = current_thread(task);
	if (!thread)
		return;
	thread->fresh.since_ns = thread->traced.since_ns;
	thread->fresh.tgid = thread->traced.tgid;
	thread->fresh.emitted_ns = 0;
	thread->fresh.reserved = 0;
	thread->fresh.context = fence->context;
	__builtin_memset(&thread->fresh.names, 0, sizeof(thread->fresh.names));
	/* Replaces an old entry, which is of a fence whose end was not seen. */
	if (bpf_map_update_elem(&fence_known, &address, &thread->fresh, BPF_ANY)) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	send_without_names(fence, FENCE_init, thread->traced.since_ns, thread->traced.tgid, 0, 0,
			   true);
}

/* The fence's entry. A driver that makes fences together with their memory (i915's requests) gives
 * one to the next user, as a fence of another context and without emitting it: such a fence does
 * not belong to the process that the memory was made for. */
static __always_inline struct fence_known *find_fence(struct dma_fence *fence, __u32 event)
{
	__u64 address = (__u64)fence;
	struct fence_known *known = bpf_map_lookup_elem(&fence_known, &address);

	if (!known || known->context == fence->context)
		return known;
	if (event == FENCE_emit) {
		known->context = fence->context;
		return known;
	}
	bpf_map_delete_elem(&fence_known, &address);
	return NULL;
}

/* The process of an event, if the fence's init was not seen. Most events can happen in any context,
 * so only the events that a process causes itself belong to the current process. */
static __always_inline bool owner_of_unknown(__u32 event, __u64 *since_ns, __u32 *tgid)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool is_own = event == FENCE_emit || event == FENCE_enable_signal;
	struct thread *thread;

	if (!is_own || !target_since(task)) {
		*since_ns = *tgid = 0;
		return target_kinds & TARGET_EVERYTHING;
	}
	thread = current_thread(task);
	if (!thread)
		return false;
	*since_ns = thread->traced.since_ns;
	*tgid = thread->traced.tgid;
	return true;
}

static __always_inline void on_event(struct dma_fence *fence, __u32 event)
{
	__u64 address = (__u64)fence;
	__u64 nanoseconds = 0;
	struct fence_known *known;
	__u64 since_ns;
	__u32 tgid;

	known = find_fence(fence, event);
	if (!known) {
		if (owner_of_unknown(event, &since_ns, &tgid))
			send_without_names(fence, event, since_ns, tgid, 0, 0, false);
		return;
	}
	if (event == FENCE_emit)
		known->emitted_ns = bpf_ktime_get_ns();
	if (event == FENCE_signaled && known->emitted_ns)
		nanoseconds = bpf_ktime_get_ns() - known->emitted_ns;
	send_known(fence, event, known->since_ns, known->tgid, 0, nanoseconds, known);
	if (event == FENCE_destroy)
		bpf_map_delete_elem(&fence_known, &address);
}

static __always_inline void send_wait(struct dma_fence *fence, __u32 event,
				      const struct traced_thread *traced, __u64 nanoseconds)
{
	const struct fence_known *known = find_fence(fence, event);

	if (known)
		send_known(fence, event, traced->since_ns, traced->tgid, traced->tid, nanoseconds,
			   known);
	else
		send_without_names(fence, event, traced->since_ns, traced->tgid, traced->tid,
				   nanoseconds, false);
}

static __always_inline void begin_wait(struct dma_fence *fence)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;
	struct wait *wait;

	if (!target_since(task))
		return;
	thread = current_thread(task);
	if (!thread)
		return;
	if (thread->depth >= MAX_WAITS) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_too_deep], 1);
		return;
	}
	wait = &thread->waits[thread->depth & (MAX_WAITS - 1)];
	wait->fence = (__u64)fence;
	wait->started_ns = bpf_ktime_get_ns();
	thread->depth++;
	send_wait(fence, FENCE_wait_start, &thread->traced, 0);
}

/* Runs at the end of every wait, also of an interrupted wait and of a timeout. */
static __always_inline void end_wait(struct dma_fence *fence)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&fence_threads, task, NULL, 0);
	struct wait *wait;
	__u64 at;

	if (!thread) {
		if (began_before_tracing(task))
			ACCOUNT(unmatched, 1);
		return;
	}
	at = thread->depth - 1;
	wait = &thread->waits[at & (MAX_WAITS - 1)];
	if (at >= MAX_WAITS || wait->fence != (__u64)fence) {
		ACCOUNT(unmatched, 1);
		return;
	}
	thread->depth = at;
	send_wait(fence, FENCE_wait_end, &thread->traced, now_ns - wait->started_ns);
}

/* The two programs of the tracepoint dma_fence_`event`: fence_`part` gets the fence, and does
 * `on_fence`; fence_n_`part` gets the names. */
#define FENCE_PROGRAMS(event, part, on_fence)                                                      \
	SEC("tp_btf/dma_fence_" #event)                                                            \
	int NAMED_PROG(part, struct dma_fence *fence)                                              \
	{                                                                                          \
		tracepoint_guard_begin();                                                          \
		on_fence;                                                                          \
		tracepoint_guard_end();                                                            \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("tp/dma_fence/dma_fence_" #event)                                                      \
	int NAMED(n_##part)(void *ctx)                                                             \
	{                                                                                          \
		tracepoint_guard_begin();                                                          \
		on_names(ctx, FENCE_##event);                                                      \
		tracepoint_guard_end();                                                            \
		return 0;                                                                          \
	}

FENCE_PROGRAMS(init, init, begin_fence(fence))
FENCE_PROGRAMS(emit, emit, on_event(fence, FENCE_emit))
FENCE_PROGRAMS(enable_signal, enable, on_event(fence, FENCE_enable_signal))
FENCE_PROGRAMS(signaled, signal, on_event(fence, FENCE_signaled))
FENCE_PROGRAMS(wait_start, wait, begin_wait(fence))
FENCE_PROGRAMS(wait_end, waited, end_wait(fence))
FENCE_PROGRAMS(destroy, destroy, on_event(fence, FENCE_destroy))

static __always_inline void forget_thread(struct task_struct *task)
{
	bpf_task_storage_delete(&fence_threads, task);
}

END_PROGRAMS(forget_thread, leave_traced)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
