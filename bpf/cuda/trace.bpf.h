/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* For `gpusnoop_exporter trace`: every outermost call, with all of its arguments. If `tracing` is
 * false, as in the exporter, the verifier removes all of this as dead code, and the maps are not
 * made. */
#ifndef GPUSNOOP_CUDA_TRACE_BPF_H
#define GPUSNOOP_CUDA_TRACE_BPF_H

#include "bpf/cuda/batches.bpf.h"
#include "bpf/cuda/calls.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/traced_pids.bpf.h"

const volatile bool tracing = false;
const volatile bool trace_stacks = false;

/* Only calls of these functions: a bit for each. */
const volatile __u64 traced_functions[CUDA_TRACED_FUNCTIONS / 64] = {};

RING_MAP(cuda_traces, 32 << 20);

/* How many calls had no room in the ring. */
ARRAY_MAP(cuda_trace_lost, 1, __u64);

static __always_inline bool is_traced(__u32 tgid, __u16 function)
{
	__u32 number = function & (CUDA_TRACED_FUNCTIONS - 1);

	if (!(traced_functions[number / 64] >> (number % 64) & 1))
		return false;
	return is_traced_process(tgid);
}

static __always_inline void count_lost_trace(void)
{
	__u32 zero = 0;
	__u64 *lost = bpf_map_lookup_elem(&cuda_trace_lost, &zero);

	if (lost)
		__sync_fetch_and_add(lost, 1);
}

static __always_inline void trace_word(__u64 *word, __u16 *fields, __u16 field, __u64 where)
{
	if (!bpf_probe_read_user(word, sizeof(*word), (const void *)where))
		*fields |= field;
}

static __always_inline void trace_allocation(struct cuda_trace_record *record,
					     const struct thread *thread, const struct call *call)
{
	record->fields |= TRACE_BYTES | TRACE_KIND;
	record->memory.kind = CUDA_COOKIE_VARIANT(call->function);
	if (!thread->result) { /* as finish_allocation() found it */
		record->memory.head.device = thread->live.device;
		record->memory.kind = thread->live.kind;
		record->memory.bytes = thread->live.bytes;
		record->memory.destination = thread->key.address;
		record->fields |= thread->key.address ? TRACE_ADDRESS : 0;
		return;
	}
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_ALLOCATE_PITCHED: /* the width, as no caller chose the pitch */
		record->memory.bytes = counted_bytes(call, call->argument[3]);
		break;
	case CUDA_ALLOCATE_3D:
		record->memory.bytes = call->argument[7] * call->argument[8] * call->argument[9];
		break;
	default:
		record->memory.bytes = counted_bytes(call, argument(call, CUDA_BYTES));
	}
}

static __always_inline void trace_free(struct cuda_trace_record *record,
				       const struct thread *thread, const struct call *call)
{
	record->fields |= TRACE_ADDRESS | TRACE_KIND;
	record->memory.destination = argument(call, CUDA_ADDRESS);
	record->memory.kind = CUDA_COOKIE_VARIANT(call->function);
	if (thread->released == RELEASED_ENTRY) { /* a free of NULL frees nothing */
		record->fields |= TRACE_BYTES;
		record->memory.bytes = thread->live.bytes;
		record->memory.kind = thread->live.kind;
	}
}

/* The kernel's own arguments: an array of pointers, as long as the kernel has parameters. Their
 * number is not known here, so a word after the last one may look like one more. */
static __always_inline void trace_parameters(struct cuda_trace_record *record,
					     struct thread *thread, __u64 parameters)
{
	for (int i = 0; i < CUDA_TRACE_WORDS; i++) {
		if (bpf_probe_read_user(thread->words, sizeof(__u64),
					(const void *)(parameters + i * sizeof(__u64))) ||
		    bpf_probe_read_user(&record->words[i], sizeof(__u64),
					(const void *)thread->words[0]))
			break;
		record->word_count = i + 1;
	}
}

/* Both configurations have the sizes, then these. In the driver's, the first has 32 bits. */
enum offset_in_configuration { CONFIG_SHARED = 24, CONFIG_STREAM = 32 };

static __always_inline void trace_launch(struct cuda_trace_record *record, struct thread *thread,
					 const struct call *call)
{
	__u64 config = argument(call, CUDA_SOURCE);

	record->kernel = argument(call, CUDA_ADDRESS);
	record->fields |= TRACE_KERNEL;
	if (!read_shape(record->grid, call))
		record->fields |= TRACE_SHAPE;
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_LAUNCH:
		record->shared_bytes = call->argument[7];
		record->memory.stream = call->argument[8];
		record->fields |= TRACE_SHARED | TRACE_STREAM;
		trace_parameters(record, thread, call->argument[6]);
		break;
	case CUDA_LAUNCH_DRIVER:
		record->shared_bytes = (__u32)call->argument[8];
		record->memory.stream = call->argument[9];
		record->fields |= TRACE_SHARED | TRACE_STREAM;
		trace_parameters(record, thread, call->argument[10]);
		break;
	default:
		trace_word(&record->shared_bytes, &record->fields, TRACE_SHARED,
			   config + CONFIG_SHARED);
		trace_word(&record->memory.stream, &record->fields, TRACE_STREAM,
			   config + CONFIG_STREAM);
		trace_parameters(record, thread, call->argument[3]);
	}
}

/* Calls whose meaning is one handle or device. */
static __always_inline void trace_other(struct cuda_trace_record *record,
					const struct thread *thread, const struct call *call)
{
	__u64 where = argument(call, CUDA_ADDRESS);

	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_MAP:
		record->memory.source = argument(call, CUDA_SOURCE);
		record->fields |= TRACE_SOURCE;
		/* fallthrough */
	case CUDA_UNMAP:
		record->memory.bytes = argument(call, CUDA_BYTES);
		record->fields |= TRACE_BYTES;
		/* fallthrough */
	case CUDA_DESTROY_POOL:
	case CUDA_DESTROY_CONTEXT:
	case CUDA_USE_CONTEXT:
	case CUDA_PUSH_CONTEXT:
		record->memory.destination = where;
		record->fields |= TRACE_ADDRESS;
		break;
	case CUDA_GET_POOL:
	case CUDA_PRIMARY_CONTEXT:
	case CUDA_CREATE_CONTEXT:
		if (CUDA_COOKIE_VARIANT(call->function) == CUDA_POOL_OF_DEVICE)
			record->memory.head.device = argument(call, CUDA_SOURCE);
		/* fallthrough */
	case CUDA_MAKE_STREAM:
	case CUDA_HANDLE:
		if (!thread->result)
			trace_word(&record->memory.destination, &record->fields, TRACE_ADDRESS,
				   where);
		break;
	case CUDA_END_CAPTURE:
	case CUDA_CREATE_GRAPH:
	case CUDA_CLONE_GRAPH:
	case CUDA_INSTANTIATE:
		if (!thread->result)
			trace_word(&record->memory.destination, &record->fields, TRACE_ADDRESS,
				   where);
		break;
	case CUDA_LAUNCH_GRAPH:
	case CUDA_DESTROY_GRAPH:
	case CUDA_UPDATE_EXECUTABLE:
	case CUDA_DESTROY_EXECUTABLE:
	case CUDA_ADD_NODE:
	case CUDA_SET_EXECUTABLE_NODE:
	case CUDA_ENABLE_NODE:
	case CUDA_RECORD_EVENT:
	case CUDA_WAIT_EVENT:
		record->memory.destination = where;
		record->fields |= TRACE_ADDRESS;
		break;
	case CUDA_ELAPSED:
		if (!thread->result &&
		    !bpf_probe_read_user(&record->memory.bytes, sizeof(__u32), (const void *)where))
			record->fields |= TRACE_ELAPSED;
		break;
	case CUDA_GET_KERNEL:
	case CUDA_GET_FUNCTION:
		if (!thread->result)
			trace_word(&record->kernel, &record->fields, TRACE_KERNEL, where);
		break;
	case CUDA_RESET_DEVICE:
	case CUDA_USE_DEVICE:
		record->memory.head.device = where;
		break;
	}
}

static __always_inline void fill_trace(struct cuda_trace_record *record, struct thread *thread,
				       const struct call *call)
{
	if (thread->capture && !thread->result)
		record->fields |= TRACE_CAPTURED;
	if ((call->function >> CUDA_STREAM) & (CALL_SLOTS - 1)) {
		record->memory.stream = argument(call, CUDA_STREAM);
		record->fields |= TRACE_STREAM;
	}
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_ALLOCATE:
	case CUDA_ALLOCATE_PITCHED:
	case CUDA_ALLOCATE_3D:
	case CUDA_ALLOCATE_AT:
	case CUDA_ALLOCATE_FROM_POOL:
		trace_allocation(record, thread, call);
		break;
	case CUDA_FREE:
		trace_free(record, thread, call);
		break;
	case CUDA_COPY:
		if (CUDA_IS_BATCH(call->function)) {
			record->memory.bytes = argument(call, CUDA_COUNT);
			record->memory.stream = batch_stream(thread, call);
			record->memory.is_async = 1;
			record->fields |= TRACE_COPIES;
			break;
		}
		fill_copy(&record->memory, call);
		record->fields |= TRACE_ADDRESS | TRACE_SOURCE | TRACE_BYTES | TRACE_KIND;
		break;
	case CUDA_COPY_3D:
	case CUDA_COPY_3D_PEER:
	case CUDA_COPY_DRIVER_2D:
	case CUDA_COPY_DRIVER_3D:
		if (!fill_described_copy(&record->memory, thread, call))
			record->fields |= TRACE_ADDRESS | TRACE_SOURCE | TRACE_BYTES | TRACE_KIND;
		break;
	case CUDA_SET:
		fill_set(&record->memory, call);
		record->fields |= TRACE_ADDRESS | TRACE_BYTES;
		break;
	case CUDA_SET_3D:
		fill_set(&record->memory, call);
		record->memory.destination = call->argument[7];
		record->fields |= TRACE_ADDRESS | TRACE_BYTES;
		break;
	case CUDA_LAUNCH:
	case CUDA_LAUNCH_CONFIG:
	case CUDA_LAUNCH_DRIVER:
		trace_launch(record, thread, call);
		break;
	default:
		trace_other(record, thread, call);
	}
}

/* At the return, after all other work for the call: the record has the results of that work. */
static __always_inline void trace_call(struct thread *thread, const struct call *call,
				       struct pt_regs *regs)
{
	struct cuda_trace_stack_record *record;
	long bytes;

	if (!is_traced(thread->tgid, CUDA_COOKIE_FUNCTION(call->function) & ~CUDA_STATIC_RUNTIME))
		return;
	if (trace_stacks)
		record = bpf_ringbuf_reserve(&cuda_traces, sizeof(*record), 0);
	else
		record = bpf_ringbuf_reserve(&cuda_traces, sizeof(record->trace), 0);
	if (!record) {
		count_lost_trace();
		return;
	}
	__builtin_memset(&record->trace, 0, sizeof(record->trace));
	fill_call(&record->trace.memory.head, thread, call, CUDA_RECORD_TRACE);
	record->trace.tid = bpf_get_current_task_btf()->pid;
	fill_trace(&record->trace, thread, call);
	if (trace_stacks) {
		bytes =
		    bpf_get_stack(regs, record->frames, sizeof(record->frames), BPF_F_USER_STACK);
		record->trace.frame_count = bytes > 0 ? bytes / sizeof(__u64) : 0;
		/* The function's frame is gone, but the return address is still where the call put
		 * it. */
		if (bytes > 0 && call->function & CUDA_EXITS)
			record->frames[0] = call_caller(regs);
	}
	SUBMIT(record);
}

#endif
