/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The processes that a kernel-side probe has traced: when they started, and when they ended. */
#ifndef GPUSNOOP_TRACED_BPF_H
#define GPUSNOOP_TRACED_BPF_H

#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/names.bpf.h"
#include "bpf/lib/processes/process.bpf.h"
#include "bpf/lib/processes/process_details.bpf.h"
#include "bpf/lib/processes/process_table.bpf.h"
#include "bpf/lib/traced.h"

RING_MAP(NAMED(events), 1 << 20);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* the loader makes it grow on demand, from 6.1 on */
	__type(key, __u32);
	__type(value, struct process_entry);
} NAMED(procs) SEC(".maps");

/* The state of a thread. */
struct traced_thread {
	__u64 since_ns; /* the process's; 0: not known yet */
	__u32 tgid;
	__u32 tid;
	struct process_entry fresh; /* scratch */
};

static __always_inline void fill_traced(struct traced_record *record, __u64 since_ns, __u32 tgid,
					__u32 type)
{
	record->at_ns = bpf_ktime_get_ns();
	record->since_ns = since_ns;
	record->tgid = tgid;
	record->type = type;
}

/* Enters the thread's process and notes its since_ns. False: no room in the table. */
static __always_inline bool enter_traced(struct traced_thread *thread, struct task_struct *task)
{
	struct traced_start_record *record;

	thread->tgid = task->tgid;
	thread->tid = task->pid;
	thread->fresh.start_boottime_ns = task->group_leader->start_boottime;
	if (find_process(&NAMED(procs), &thread->tgid, &thread->fresh, &thread->since_ns))
		return true;
	record = bpf_ringbuf_reserve(&NAMED(events), sizeof(*record), 0);
	if (add_process(&NAMED(procs), &thread->tgid, &thread->fresh, &thread->since_ns)) {
		if (record) {
			fill_traced(&record->head, thread->since_ns, thread->tgid, PROCESS_STARTED);
			fill_identity(&record->identity, task);
			FILL_PART(record, details, fill_details);
			SUBMIT(record);
		}
		return true;
	}
	if (record)
		DISCARD(record);
	return thread->since_ns != 0;
}

static __always_inline void leave_traced(__u32 tgid)
{
	__u64 cost_ns = 0;
	const __u64 since_ns = remove_process(&NAMED(procs), &tgid, &cost_ns);
	struct traced_end_record *record;

	if (!since_ns)
		return;
	record = bpf_ringbuf_reserve(&NAMED(events), sizeof(*record), 0);
	if (!record)
		return; /* the exporter finds by itself that the process is gone */
	fill_traced(&record->head, since_ns, tgid, PROCESS_ENDED);
	record->cost_ns = cost_ns;
	record->run_ns = run_time_of_current();
	SUBMIT(record);
}

#endif
