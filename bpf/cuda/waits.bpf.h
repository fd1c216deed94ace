/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Waits for the GPU, and times between events. */
#ifndef GPUSNOOP_CUDA_WAITS_BPF_H
#define GPUSNOOP_CUDA_WAITS_BPF_H

#include "bpf/cuda/calls.bpf.h"

static __always_inline void finish_wait(struct thread *thread, const struct call *call)
{
	struct cuda_wait_record *record;

	if (!RESERVE_CALL(thread, call, record, CUDA_RECORD_WAIT))
		return;
	record->stream = CUDA_COOKIE_OPERATION(call->function) == CUDA_WAIT_DEVICE
			     ? CUDA_ALL_STREAMS
			     : argument(call, CUDA_STREAM);
	SUBMIT_CALL(record);
}

static __always_inline void finish_elapsed(struct thread *thread, const struct call *call)
{
	struct cuda_elapsed_record *record;

	if (!RESERVE_CALL(thread, call, record, CUDA_RECORD_ELAPSED))
		return;
	record->reserved = 0;
	if (bpf_probe_read_user(&record->milliseconds, sizeof(record->milliseconds),
				(const void *)argument(call, CUDA_ADDRESS))) {
		DISCARD_CALL(record);
		return;
	}
	SUBMIT_CALL(record);
}

#endif
