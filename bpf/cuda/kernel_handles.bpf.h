/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The meanings of kernel handles: other handles, host functions, names. */
#ifndef GPUSNOOP_CUDA_KERNEL_HANDLES_BPF_H
#define GPUSNOOP_CUDA_KERNEL_HANDLES_BPF_H

#include "bpf/cuda/process.bpf.h"
#include "bpf/lib/maps.bpf.h"

/* Where the name of each registered kernel is, in the memory of the process. Programs register
 * thousands when they start, and launch few: so this is a table for lookups, without a record for
 * each. */
ON_DEMAND_MAP(cuda_registered, 1 << 18, struct cuda_live_key, __u64);

/* Not a call of a CUDA process: programs that link a library with kernels register them, even if
 * they never use them. */
static __always_inline void register_kernel(struct thread *thread, struct pt_regs *regs)
{
	thread->tgid = bpf_get_current_task_btf()->tgid;
	set_key(thread, PT_REGS_PARM2(regs), CUDA_LIVE_REGISTERED);
	thread->key.since_ns = 0;
	thread->words[0] = PT_REGS_PARM4(regs);
	bpf_map_update_elem(&cuda_registered, &thread->key, thread->words, BPF_ANY);
}

static __always_inline void finish_get_kernel(struct thread *thread, const struct call *call)
{
	struct cuda_kernel_record *record;

	record = bpf_ringbuf_reserve(&cuda_mem_events, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(&record->head, thread, call, CUDA_RECORD_KERNEL);
	record->stands_for = argument(call, CUDA_SOURCE);
	if (bpf_probe_read_user(&record->handle, sizeof(record->handle),
				(const void *)argument(call, CUDA_ADDRESS))) {
		DISCARD(record);
		ACCOUNT(lost[LOST_fault], 1);
		return;
	}
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void finish_get_function(struct thread *thread, const struct call *call)
{
	struct cuda_name_record *record;

	record = bpf_ringbuf_reserve(&cuda_mem_events, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(&record->head, thread, call, CUDA_RECORD_NAME);
	if (bpf_probe_read_user(&record->handle, sizeof(record->handle),
				(const void *)argument(call, CUDA_ADDRESS)) ||
	    bpf_probe_read_user_str(record->name, sizeof(record->name),
				    (const void *)argument(call, CUDA_SOURCE)) < 0) {
		DISCARD(record);
		ACCOUNT(lost[LOST_fault], 1);
		return;
	}
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline bool is_getter(__u64 cookie)
{
	return CUDA_COOKIE_OPERATION(cookie) == CUDA_GET_KERNEL ||
	       CUDA_COOKIE_OPERATION(cookie) == CUDA_GET_FUNCTION;
}

static __always_inline void finish_getter(struct thread *thread, const struct call *call)
{
	if (CUDA_COOKIE_OPERATION(call->function) == CUDA_GET_KERNEL)
		finish_get_kernel(thread, call);
	else
		finish_get_function(thread, call);
}

/* ---- inside of other calls ---- */

/* The first launch of a kernel gets its handles, inside of the runtime's call. The handles are
 * needed where the runtime's launches have no probe. Non-zero: its return is of no interest. */
static __always_inline long enter_getter(struct thread *thread, struct pt_regs *regs)
{
	struct call *call;

	if (!counts_launches || !is_getter(thread->cookie))
		return 1;
	if (thread->getter.depth) {
		if (!call_drop_dead(bpf_get_current_task_btf(), &thread->getter, regs))
			return 1;
		ACCOUNT(stale, 1);
	}
	call = call_begin(&thread->getter, regs, thread->cookie);
	if (!call)
		return 1;
	ACCOUNT(entered, 1);
	call_start(call);
	return !!(call->function & CUDA_EXITS);
}

/* Is the call that ends the open getter? */
static __always_inline bool leaves_getter(const struct thread *thread, __u64 sp, __u64 function)
{
	const struct call *call = &thread->getter.call[0];

	return thread->getter.depth && call->sp == sp && call->function == function;
}

static __always_inline void end_getter(struct thread *thread, __s32 result)
{
	thread->getter.depth = 0;
	thread->result = result;
	if (result)
		ACCOUNT(events, 1);
	else
		finish_getter(thread, &thread->getter.call[0]);
}

#endif
