/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The ring of copies, memsets, launches, waits, and calls that never return. A flood can fill it;
 * each process has a budget in it. */
#ifndef GPUSNOOP_CUDA_CALLS_BPF_H
#define GPUSNOOP_CUDA_CALLS_BPF_H

#include "bpf/cuda/process.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/thread_ends.bpf.h"

RING_MAP(cuda_events, 8 << 20);

/* Reserves a record and fills its head; NULL: counted as lost. */
#define RESERVE_CALL(thread, call, record, record_type)                                            \
	({                                                                                         \
		(record) = bpf_ringbuf_reserve(&cuda_events, sizeof(*(record)), 0);                \
		if (record)                                                                        \
			fill_call(&(record)->head, thread, call, record_type);                     \
		else                                                                               \
			ACCOUNT(lost[LOST_ring_full], 1);                                          \
		(record);                                                                          \
	})

#define SUBMIT_CALL(record)                                                                        \
	({                                                                                         \
		SUBMIT(record);                                                                    \
		ACCOUNT(events, 1);                                                                \
	})

#define DISCARD_CALL(record)                                                                       \
	({                                                                                         \
		DISCARD(record);                                                                   \
		ACCOUNT(lost[LOST_fault], 1);                                                      \
	})

static __always_inline void report_unreturned(struct task_struct *task, const struct thread *thread)
{
	struct cuda_unreturned_record *record;

	if (is_cut_off(thread))
		return;
	record = bpf_ringbuf_reserve(&cuda_events, sizeof(*record), 0);
	if (!record)
		return; /* the call is counted as stale all the same */
	if (!fill_unreturned(&record->unreturned, task, &thread->open.call[0],
			     unreturned_after_ns)) {
		DISCARD(record);
		return;
	}
	fill_head(&record->head, thread->since_ns, task->tgid, CUDA_RECORD_UNRETURNED);
	record->unreturned.call.device = thread->chosen.ordinal_plus_1 - 1;
	SUBMIT(record);
}

FORGET_THREAD(cuda_threads, cuda_procs, thread->open.depth + thread->profiler.depth,
	      report_unreturned)

/* Launches of kernels. */

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

/* Waits for the GPU, and times between events. */
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
