/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Launches of kernels. */
#ifndef GPUSNOOP_CUDA_LAUNCHES_BPF_H
#define GPUSNOOP_CUDA_LAUNCHES_BPF_H

#include "bpf/cuda/calls.bpf.h"

/* The three sizes of the grid, then those of a block. Nonzero: they could not be read. */
static __always_inline long read_shape(__u32 *sizes, const struct call *call)
{
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_LAUNCH: /* a dim3 travels in two words */
		sizes[0] = call->argument[2];
		sizes[1] = call->argument[2] >> 32;
		sizes[2] = call->argument[3];
		sizes[3] = call->argument[4];
		sizes[4] = call->argument[4] >> 32;
		sizes[5] = call->argument[5];
		return 0;
	case CUDA_LAUNCH_DRIVER:
		sizes[0] = call->argument[2];
		sizes[1] = call->argument[3];
		sizes[2] = call->argument[4];
		sizes[3] = call->argument[5];
		sizes[4] = call->argument[6];
		sizes[5] = call->argument[7];
		return 0;
	default: /* both configurations begin with the six sizes */
		return bpf_probe_read_user(sizes, 6 * sizeof(*sizes),
					   (const void *)argument(call, CUDA_SOURCE));
	}
}

static __always_inline void send_launch(struct thread *thread, const struct call *call,
					enum cuda_record_type type)
{
	struct cuda_launch_record *record;

	if (!RESERVE_CALL(thread, call, record, type))
		return;
	record->kernel = argument(call, CUDA_ADDRESS);
	if (read_shape(record->grid, call)) {
		DISCARD_CALL(record);
		return;
	}
	SUBMIT_CALL(record);
}

static __always_inline void finish_launch(struct thread *thread, const struct call *call)
{
	send_launch(thread, call, CUDA_RECORD_LAUNCH);
}

#endif
