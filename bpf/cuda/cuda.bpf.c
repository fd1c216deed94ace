// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* CUDA calls: one record per outermost call, sent when it returns. Allocations, frees and what
 * happens to processes go through a ring of their own, so that a flood of launches cannot crowd
 * them out. */
#define PROBE cuda

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/cuda/process.bpf.h"
#include "bpf/cuda/handles.bpf.h"
#include "bpf/cuda/memory.bpf.h"
#include "bpf/cuda/device.bpf.h"
#include "bpf/cuda/batches.bpf.h"
#include "bpf/cuda/calls.bpf.h"
#include "bpf/cuda/copies.bpf.h"
#include "bpf/cuda/counted_launches/program.bpf.h"
#include "bpf/cuda/graphs/graphs.bpf.h"
#include "bpf/cuda/last_calls.bpf.h"
#include "bpf/cuda/kernel_handles.bpf.h"
#include "bpf/cuda/operations.bpf.h"
#include "bpf/cuda/profilers.bpf.h"
#include "bpf/cuda/refusals.bpf.h"
#include "bpf/cuda/structures.bpf.h"
#include "bpf/cuda/times.bpf.h"
#include "bpf/cuda/trace.bpf.h"
#include "bpf/lib/deaths.bpf.h"

/* The work that must precede the call, before it changes its arguments or its memory. */
static __always_inline void begin(struct thread *thread, struct call *call, struct pt_regs *regs)
{
	bool captures = is_capturing();

	if (!tracing && !captures && CUDA_COOKIE_OPERATION(call->function) == CUDA_LAUNCH_DRIVER)
		call_read_seventh(call, regs);
	else if (tracing || captures || call->function & ON_STACK)
		call_read_stack(call, regs);
	call_read_structures(call);
	thread->capture = 0;
	thread->follows = 0;
	if (captures)
		note_capture(thread, call);
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_ALLOCATE:
	case CUDA_ALLOCATE_PITCHED:
	case CUDA_ALLOCATE_3D:
	case CUDA_ALLOCATE_AT:
	case CUDA_ALLOCATE_FROM_POOL:
		begin_allocation(thread, regs);
		break;
	case CUDA_FREE:
		if (thread->capture)
			thread->released = RELEASED_NOTHING;
		else
			begin_free(thread, call);
		break;
	case CUDA_MAP:
		begin_map(thread, call);
		break;
	}
	if (counts_launches && ends_kernels(CUDA_COOKIE_OPERATION(call->function)))
		begin_epoch(thread);
}

static __always_inline long cuda_enter(struct pt_regs *regs, struct task_struct *task, __u64 cookie)
{
	struct thread *thread;
	struct call *call;

	if (is_operation_of(event_operations, cookie) && !is_capturing()) {
		thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);
		if (thread && thread->since_ns)
			add_cuda_cost(thread, cost_of_entry(cookie));
		return 1;
	}
	thread = bpf_task_storage_get(&cuda_threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_no_state], 1);
		return 1;
	}
	thread->cookie = cookie;
	if (CUDA_COOKIE_OPERATION(thread->cookie) == CUDA_REGISTER) {
		register_kernel(thread, regs);
		return 1;
	}
	if (!thread->since_ns)
		enter_process(thread);
	if (thread->since_ns)
		add_cuda_cost(thread, cost_of_entry(thread->cookie));
	thread->cookie &= ~CALL_STEPPED;
	if (is_operation_of(profiler_operations, thread->cookie))
		return enter_profiler(thread, regs);
	if (counts_launches && is_driver_launch(thread->cookie) && is_left_to_other(thread))
		return 1;
	if (is_nested(thread, regs))
		return enter_getter(thread, regs);
	if (counts_launches && is_of_unseen_launch(thread, regs))
		return 1;
	ACCOUNT(entered, 1);
	if (!thread->since_ns)
		return 1;
	if (keep_times && !thread->in_calls.since_ns)
		begin_times(thread);
	call = call_begin(&thread->open, regs, thread->cookie);
	if (!call)
		return 1;
	thread->nested = 0;
	thread->inner_launches = 0;
	add_cuda_cost(thread, costs.record);
	begin(thread, call, regs);
	call_start(call);
	return thread->follows | !!(call->function & CUDA_EXITS);
}

/* A call that failed did nothing. Errors of calls about memory and graphs go through the ring of
 * allocations. */
static __always_inline void finish_failed(struct thread *thread, const struct call *call)
{
	struct cuda_failed_record *record;

	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_FREE:
		undo_free(thread, call);
		break;
	case CUDA_MAP:
		undo_map(thread, call);
		break;
	}
	if (tracing)
		return;
	if (!is_one_of(profiler_operations, call)) {
		note_refused(thread, call);
		if (follow_failed)
			thread->follows = CUDA_FAILED;
	}
	if (is_one_of(memory_operations | graph_operations, call))
		record = bpf_ringbuf_reserve(&cuda_mem_events, sizeof(*record), 0);
	else if (within_budget(thread))
		record = bpf_ringbuf_reserve(&cuda_events, sizeof(*record), 0);
	else {
		ACCOUNT(lost[LOST_throttled], 1);
		return;
	}
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(&record->head, thread, call, CUDA_RECORD_FAILED);
	fill_refused(record, thread, call);
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void finish_memory(struct thread *thread, const struct call *call)
{
	if (thread->capture) {
		finish_captured(thread, call);
		return;
	}
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_ALLOCATE:
	case CUDA_ALLOCATE_PITCHED:
	case CUDA_ALLOCATE_3D:
	case CUDA_ALLOCATE_AT:
	case CUDA_ALLOCATE_FROM_POOL:
		finish_allocation(thread, call);
		break;
	case CUDA_FREE:
		finish_free(thread, call);
		break;
	case CUDA_MAP:
		finish_map(thread, call);
		break;
	case CUDA_UNMAP:
		finish_unmap(thread, call);
		break;
	case CUDA_HANDLE:
		finish_handle(thread, call);
		break;
	case CUDA_RESET:
		finish_reset(thread, call, thread->chosen.ordinal_plus_1 - 1);
		break;
	case CUDA_RESET_DEVICE:
		finish_reset(thread, call, argument(call, CUDA_ADDRESS));
		break;
	case CUDA_DESTROY_CONTEXT:
		send_reset(thread, call, CUDA_DEVICE_UNKNOWN, argument(call, CUDA_ADDRESS));
		forget_context(thread, argument(call, CUDA_ADDRESS));
		break;
	}
}

static __always_inline void finish_call(struct thread *thread, const struct call *call)
{
	if (tracing)
		return;
	if (thread->capture) {
		finish_captured(thread, call);
		return;
	}
	if (CUDA_LAUNCHES_KERNEL(CUDA_COOKIE_OPERATION(call->function)))
		note_launch(thread);
	if (!within_budget(thread)) {
		ACCOUNT(lost[LOST_throttled], 1);
		return;
	}
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_LAUNCH:
	case CUDA_LAUNCH_CONFIG:
	case CUDA_LAUNCH_DRIVER:
		check_launch(thread, call);
		finish_launch(thread, call);
		break;
	case CUDA_COPY:
		if (CUDA_IS_BATCH(call->function))
			finish_batch(thread, call);
		else
			finish_copy(thread, call);
		break;
	case CUDA_SET:
	case CUDA_SET_3D:
		finish_set(thread, call);
		break;
	case CUDA_LAUNCH_GRAPH:
		finish_graph(thread, call);
		break;
	case CUDA_WAIT_STREAM:
	case CUDA_WAIT_DEVICE:
		finish_wait(thread, call);
		break;
	case CUDA_ELAPSED:
		finish_elapsed(thread, call);
		break;
	case CUDA_FREE_MEMORY:
		finish_free_memory(thread, call);
		break;
	case CUDA_COPY_3D:
	case CUDA_COPY_3D_PEER:
	case CUDA_COPY_DRIVER_2D:
	case CUDA_COPY_DRIVER_3D:
		finish_described_copy(thread, call);
		break;
	}
}

static __always_inline void finish(struct thread *thread, const struct call *call)
{
	if (is_one_of(event_operations, call))
		finish_event(thread, call);
	else if (is_one_of(graph_operations, call) && has_effect(thread, call))
		finish_change(thread, call);
	else if (thread->result)
		finish_failed(thread, call);
	else if (is_one_of(memory_operations, call))
		finish_memory(thread, call);
	else if (is_one_of(call_operations, call))
		finish_call(thread, call);
	else if (is_getter(call->function))
		finish_getter(thread, call);
	else
		finish_device(thread, call);
}

static __always_inline void end(struct thread *thread, const struct call *call,
				struct pt_regs *regs, __u64 now_ns)
{
	thread->ended_ns = now_ns;
	thread->result = PT_REGS_RC(regs);
	finish(thread, call);
	if (thread->refused_ns && !thread->result)
		note_repaired(thread, call);
	if (!CUDA_LAUNCHES_KERNEL(CUDA_COOKIE_OPERATION(call->function)))
		note_other_call(thread);
	if (keep_times)
		end_call_times(thread);
	if (tracing) {
		if (is_one_of(graph_operations | event_operations, call))
			thread->capture = 0; /* these are not recorded in it */
		trace_call(thread, call, regs);
	}
}

/* A trace does not show calls of CUPTI. */
static __always_inline void end_profiler(struct thread *thread, const struct call *call,
					 struct pt_regs *regs, __u64 now_ns)
{
	thread->ended_ns = now_ns;
	thread->result = PT_REGS_RC(regs);
	if (thread->result)
		finish_failed(thread, call);
	else
		finish_profiler(thread, call);
}

static __always_inline void leave_profiler(struct thread *thread, struct pt_regs *regs,
					   __u64 function, __u64 now_ns)
{
	struct call *call;
	__u64 dead = 0;

	call = thread ? call_end(&thread->profiler, regs, function, &dead) : NULL;
	if (call)
		end_profiler(thread, call, regs, now_ns);
	else if (!thread || !call_encloses(&thread->profiler, regs))
		ACCOUNT(unmatched, 1);
}

static __always_inline void cuda_leave(struct pt_regs *regs, struct task_struct *task,
				       __u64 function)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct thread *thread;
	struct call *call;
	__u64 dead = 0;

	if (CUDA_COOKIE_OPERATION(function) == CUDA_REGISTER)
		return; /* the programs of a pair run here, too */
	thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);
	if (thread && thread->since_ns)
		add_cuda_cost(thread, costs.ending);
	if (is_operation_of(profiler_operations, function)) {
		leave_profiler(thread, regs, function, now_ns);
		return;
	}
	if (thread && leaves_getter(thread, CALL_SP_AT_RETURN(regs), function)) {
		thread->ended_ns = now_ns;
		end_getter(thread, PT_REGS_RC(regs));
		return;
	}
	call = thread ? call_end(&thread->open, regs, function, &dead) : NULL;
	if (!call) {
		if (!is_operation_of(event_operations, function) &&
		    !(counts_launches && CUDA_LAUNCHES_KERNEL(CUDA_COOKIE_OPERATION(function))) &&
		    (!thread || !call_encloses(&thread->open, regs)))
			ACCOUNT(unmatched, 1);
		return;
	}
	end(thread, call, regs, now_ns);
}

/* Runs before an instruction that may leave a function. It leaves if the stack pointer is the same
 * as at the entry. */
static __always_inline void cuda_leave_at_exit(struct pt_regs *regs, struct task_struct *task,
					       __u64 cookie)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct thread *thread;
	struct call *call;
	__u64 dead = 0;

	thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);
	if (!thread)
		return;
	if (thread->since_ns)
		add_cuda_cost(thread,
			      costs.stepped_entry); /* the instruction is a return, mostly */
	thread->cookie = cookie;		    /* scratch: no call begins */
	if (is_operation_of(profiler_operations, thread->cookie)) {
		call = call_end_at(&thread->profiler, CALL_SP(regs), thread->cookie, &dead);
		if (call)
			end_profiler(thread, call, regs, now_ns);
		return;
	}
	if (leaves_getter(thread, CALL_SP(regs), thread->cookie)) {
		thread->ended_ns = now_ns;
		end_getter(thread, PT_REGS_RC(regs));
		return;
	}
	call = call_end_at(&thread->open, CALL_SP(regs), thread->cookie, &dead);
	if (call)
		end(thread, call, regs, now_ns);
}

CALL_PROGRAMS(cuda_enter, cuda_leave)
CALL_EXIT_PROGRAMS(cuda_leave_at_exit)

END_PROGRAMS(end_thread, forget_process)
END_TIMES_PROGRAMS()

DEATH_PROGRAM(cuda_threads, (is_in_call(task, &thread->open) && !is_cut_off(thread)) ||
				is_in_call(task, &thread->profiler))

SEC("raw_tp")
int cuda_end_map(struct bpf_raw_tracepoint_args *arguments)
{
	struct thread *thread = bpf_task_storage_get(&cuda_threads, bpf_get_current_task_btf(),
						     NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread)
		return -1;
	thread->since_ns = arguments->args[END_SINCE];
	end_mapping_of(thread, arguments);
	thread->since_ns = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
