/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Calls that fail for lack of memory: what they asked for, and whether the thread gets it after
 * all. PyTorch's allocator fails, frees its cache and tries again, which is normal. */
#ifndef GPUSNOOP_CUDA_REFUSALS_BPF_H
#define GPUSNOOP_CUDA_REFUSALS_BPF_H

#include "bpf/cuda/calls.bpf.h"
#include "bpf/cuda/memory.bpf.h"
#include "bpf/cuda/operations.bpf.h"

static __always_inline bool is_allocation(const struct call *call)
{
	return CUDA_COOKIE_OPERATION(call->function) <= CUDA_ALLOCATE_FROM_POOL;
}

/* What a failed allocation asked for. Without a pitch, which the library chooses when it succeeds.
 */
static __always_inline __u64 requested_bytes(const struct call *call)
{
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_ALLOCATE_3D: /* a cudaExtent */
		return call->argument[7] * call->argument[8] * call->argument[9];
	case CUDA_ALLOCATE_PITCHED: /* its width is behind the pointer to the pitch */
		return counted_bytes(call, call->argument[3]);
	default:
		return counted_bytes(call, argument(call, CUDA_BYTES));
	}
}

/* The device of a call that is no allocation. A context is made on the device that the call names:
 * cudaSetDevice makes one, too. */
static __always_inline __s32 device_of_call(const struct thread *thread, const struct call *call)
{
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_USE_DEVICE:
		return argument(call, CUDA_ADDRESS);
	case CUDA_CREATE_CONTEXT:
	case CUDA_PRIMARY_CONTEXT:
		return argument(call, CUDA_SOURCE);
	case CUDA_GET_POOL:
		return CUDA_DEVICE_UNKNOWN;
	default:
		return thread->chosen.ordinal_plus_1 - 1;
	}
}

/* Before the record is made: this finds out where the memory was to be. Not for calls of CUPTI,
 * which may be inside of a call that has its own data there. */
static __always_inline void note_refused(struct thread *thread, const struct call *call)
{
	thread->live.kind = (__u16)CUDA_NO_MEMORY_KIND;
	thread->live.bytes = 0;
	if (is_allocation(call)) {
		locate(thread, call);
		thread->live.bytes = requested_bytes(call);
	} else {
		thread->live.device = device_of_call(thread, call);
	}
	if (thread->result != CUDA_OUT_OF_MEMORY || MEMORY_IS_HOST(thread->live.kind))
		return;
	thread->refused_ns = thread->ended_ns;
	thread->refused_bytes = thread->live.bytes;
	thread->refused_device = thread->live.device;
	thread->refused_function =
	    is_allocation(call) ? CUDA_NO_FUNCTION : CUDA_COOKIE_FUNCTION(call->function);
}

static __always_inline void fill_refused(struct cuda_failed_record *record,
					 const struct thread *thread, const struct call *call)
{
	bool is_profilers = is_one_of(profiler_operations, call);
	bool allocates = is_allocation(call);

	if (!is_profilers)
		record->head.device = thread->live.device;
	record->bytes = is_profilers ? 0 : thread->live.bytes;
	record->caller = allocates ? thread->caller : 0;
	record->python = allocates ? thread->python : PYTHON_STACK_NONE;
	record->stack = allocates ? thread->stack : -1;
	record->tid = bpf_get_current_task_btf()->pid;
	record->kind = is_profilers ? CUDA_NO_MEMORY_KIND : thread->live.kind;
	record->reserved = 0;
}

/* Did this call, which succeeded, give the thread what it was refused? Host memory is no
 * replacement. */
static __always_inline bool repairs(const struct thread *thread, const struct call *call)
{
	if (!is_allocation(call))
		return thread->refused_function == CUDA_COOKIE_FUNCTION(call->function) &&
		       thread->refused_device == device_of_call(thread, call);
	return thread->refused_function == CUDA_NO_FUNCTION && !thread->capture &&
	       !MEMORY_IS_HOST(thread->live.kind) && thread->live.bytes >= thread->refused_bytes &&
	       thread->live.device == thread->refused_device;
}

/* Later the exporter has taken the refusal for the last word already. */
#define REPAIRED_WITHIN_NS 10000000000ULL

static __always_inline void note_repaired(struct thread *thread, const struct call *call)
{
	struct cuda_repaired_record *record;

	if (!repairs(thread, call))
		return;
	if (thread->ended_ns - thread->refused_ns < REPAIRED_WITHIN_NS) {
		ACCOUNT(entered, 1); /* a record besides the call's own */
		record = bpf_ringbuf_reserve(&cuda_mem_events, sizeof(*record), 0);
		if (record) {
			fill_call(&record->head, thread, call, CUDA_RECORD_REPAIRED);
			record->refused_ns = thread->refused_ns;
			record->tid = bpf_get_current_task_btf()->pid;
			record->reserved = 0;
			SUBMIT(record);
			ACCOUNT(events, 1);
		} else {
			ACCOUNT(lost[LOST_ring_full], 1);
		}
	}
	thread->refused_ns = 0;
}

static __always_inline void finish_free_memory(struct thread *thread, const struct call *call)
{
	struct cuda_free_memory_record *record;

	if (!RESERVE_CALL(thread, call, record, CUDA_RECORD_FREE_MEMORY))
		return;
	if (bpf_probe_read_user(&record->free, sizeof(record->free),
				(const void *)argument(call, CUDA_ADDRESS)) ||
	    bpf_probe_read_user(&record->total, sizeof(record->total),
				(const void *)argument(call, CUDA_SOURCE))) {
		DISCARD_CALL(record);
		return;
	}
	SUBMIT_CALL(record);
}

#endif
