/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The ring of copies, memsets, launches, waits, and calls that never return. A flood can fill it;
 * each process has a budget in it. */
#ifndef GPUSNOOP_CUDA_CALLS_BPF_H
#define GPUSNOOP_CUDA_CALLS_BPF_H

#include "bpf/cuda/process.bpf.h"
#include "bpf/lib/thread_ends.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} cuda_events SEC(".maps");

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
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);                                     \
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
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return;
	}
	fill_head(&record->head, thread->since_ns, task->tgid, CUDA_RECORD_UNRETURNED);
	record->unreturned.call.device = thread->chosen.ordinal_plus_1 - 1;
	SUBMIT(record);
}

FORGET_THREAD(cuda_threads, cuda_procs, thread->open.depth + thread->profiler.depth,
	      report_unreturned)

#endif
