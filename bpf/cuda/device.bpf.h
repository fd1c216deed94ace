/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The device that a thread has chosen, by cudaSetDevice or by a driver context. */
#ifndef GPUSNOOP_CUDA_DEVICE_BPF_H
#define GPUSNOOP_CUDA_DEVICE_BPF_H

#include "bpf/cuda/locations.bpf.h"
#include "bpf/lib/maps.bpf.h"

/* The driver's contexts and their devices. Newer entries replace the entries of ended processes. */
LRU_MAP(cuda_contexts, 4096, struct cuda_live_key, struct cuda_context);

static __always_inline void choose(struct thread *thread, __u64 handle)
{
	struct cuda_context *context;

	set_key(thread, handle, CUDA_LIVE_CONTEXTS);
	context = bpf_map_lookup_elem(&cuda_contexts, &thread->key);
	thread->chosen.context = handle;
	if (!handle) {
		thread->chosen.ordinal_plus_1 = 0;
	} else if (!context) {
		thread->chosen.ordinal_plus_1 = CUDA_DEVICE_UNKNOWN + 1;
	} else {
		thread->chosen.ordinal_plus_1 = context->device + 1;
		if (context->is_primary)
			thread->chosen.context = 0;
	}
}

static __always_inline void push(struct thread *thread)
{
	thread->pushed[thread->pushes++ & (PUSHED_CONTEXTS - 1)] = thread->chosen;
}

static __always_inline void pop(struct thread *thread)
{
	if (thread->pushes) {
		thread->chosen = thread->pushed[--thread->pushes & (PUSHED_CONTEXTS - 1)];
	} else {
		thread->chosen.ordinal_plus_1 = 0;
		thread->chosen.context = 0;
	}
}

/* When the last context with the handle of thread->key was destroyed: handles are reused. */
static __always_inline __u64 destroyed_at(struct thread *thread)
{
	struct cuda_context *former = bpf_map_lookup_elem(&cuda_contexts, &thread->key);

	return former ? former->destroyed_ns : 0;
}

/* A destroyed context that is current is popped as well. */
static __always_inline void forget_context(struct thread *thread, __u64 handle)
{
	struct cuda_context *context = (struct cuda_context *)thread->words;

	set_key(thread, handle, CUDA_LIVE_CONTEXTS);
	context->destroyed_ns = thread->ended_ns;
	context->device = CUDA_DEVICE_UNKNOWN;
	context->is_primary = 0;
	bpf_map_update_elem(&cuda_contexts, &thread->key, context, BPF_ANY);
	if (thread->chosen.context == handle)
		pop(thread);
}

static __always_inline void learn_context(struct thread *thread, const struct call *call,
					  bool is_primary)
{
	struct cuda_context *context = (struct cuda_context *)thread->words;

	set_key(thread, 0, CUDA_LIVE_CONTEXTS);
	if (bpf_probe_read_user(&thread->key.address, sizeof(__u64),
				(const void *)argument(call, CUDA_ADDRESS)))
		return;
	context->destroyed_ns = destroyed_at(thread);
	context->device = argument(call, CUDA_SOURCE);
	context->is_primary = is_primary;
	bpf_map_update_elem(&cuda_contexts, &thread->key, context, BPF_ANY);
	if (!is_primary) {
		push(thread);
		choose(thread, thread->key.address);
	}
}

static __always_inline void finish_device(struct thread *thread, const struct call *call)
{
	__u64 where = argument(call, CUDA_ADDRESS);

	ACCOUNT(events, 1);
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_USE_DEVICE:
		thread->chosen.ordinal_plus_1 = (__s32)where + 1;
		thread->chosen.context = 0;
		break;
	case CUDA_USE_CONTEXT:
		choose(thread, where);
		break;
	case CUDA_PUSH_CONTEXT:
		push(thread);
		choose(thread, where);
		break;
	case CUDA_POP_CONTEXT:
		pop(thread);
		break;
	case CUDA_CREATE_CONTEXT:
		learn_context(thread, call, false);
		break;
	case CUDA_GET_POOL:
		learn_pool(thread, call);
		break;
	case CUDA_DESTROY_POOL:
		forget_pool(thread, call);
		break;
	case CUDA_MAKE_STREAM:
		learn_stream(thread, call);
		break;
	case CUDA_PRIMARY_CONTEXT:
		learn_context(thread, call, true);
		break;
	}
}

/* Resets of devices and ends of contexts, which free all memory in them. */
static __always_inline void send_reset(struct thread *thread, const struct call *call, __s32 device,
				       __u64 context)
{
	struct cuda_reset_record *record;

	record = bpf_ringbuf_reserve(&cuda_mem_events, sizeof(*record), 0);
	if (!record) {
		count_lost_allocation(thread);
		return;
	}
	fill_call(&record->head, thread, call, CUDA_RECORD_RESET);
	record->head.device = device;
	record->context = context;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* Notes the reset of a device that has no place in reset_ns. */
static __always_inline void note_far_reset(struct thread *thread, __u64 device)
{
	struct cuda_context *context = (struct cuda_context *)thread->words;

	set_key(thread, device, CUDA_LIVE_CONTEXTS);
	context->destroyed_ns = thread->ended_ns;
	context->device = device;
	context->is_primary = 1;
	bpf_map_update_elem(&cuda_contexts, &thread->key, context, BPF_ANY);
}

/* All memory in the device's primary context is gone. The table keeps the entries until the
 * exporter has read the record; until then reset_ns marks them as gone. */
static __always_inline void finish_reset(struct thread *thread, const struct call *call,
					 __s32 device)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);
	/* A thread that chose no device uses the first. */
	__u64 index = device == CUDA_DEVICE_UNCHOSEN ? 0 : (__u32)device;

	barrier_var(index);
	if (process && index < CUDA_MAX_DEVICES)
		process->reset_ns[index] = thread->ended_ns;
	else if (process && index < CUDA_KNOWN_DEVICES)
		note_far_reset(thread, index);
	send_reset(thread, call, device, 0);
}

#endif
