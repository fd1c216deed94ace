/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Resets of devices and ends of contexts, which free all memory in them. */
#ifndef GPUSNOOP_CUDA_RESETS_BPF_H
#define GPUSNOOP_CUDA_RESETS_BPF_H

#include "bpf/cuda/device.bpf.h"

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
