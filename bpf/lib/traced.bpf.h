/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The processes that a probe of the kernel's side has traced: when they came, and when they went.
 */
#ifndef GPUSNOOP_TRACED_BPF_H
#define GPUSNOOP_TRACED_BPF_H

#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/process.bpf.h"
#include "bpf/lib/traced.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* allocated at once: before 6.1 the kernel warns otherwise */
	__type(key, __u32);
	__type(value, struct traced_process);
} processes SEC(".maps");

/* A thread's part. */
struct traced_thread {
	__u64 since_ns; /* the process's; 0: not known yet */
	__u32 tgid;
	__u32 tid;
	struct traced_process fresh; /* scratch */
};

static __always_inline void fill_traced(struct traced_record *record, __u64 since_ns, __u32 tgid,
					__u32 type)
{
	record->at_ns = bpf_ktime_get_ns();
	record->since_ns = since_ns;
	record->tgid = tgid;
	record->type = type;
}

/* Enters the thread's process and notes its since_ns. False: no room in the table, and that is
 * counted. The process's record has its place in the ring before the process is in the table, so
 * whoever finds it there sends what it has behind it. */
static __always_inline bool enter_traced(struct traced_thread *thread, struct task_struct *task)
{
	struct traced_came_record *record;
	struct traced_process *known;

	thread->tgid = task->tgid;
	thread->tid = task->pid;
	thread->fresh.start_boottime_ns = task->group_leader->start_boottime;
	known = bpf_map_lookup_elem(&processes, &thread->tgid);
	if (known) {
		if (known->start_boottime_ns == thread->fresh.start_boottime_ns) {
			thread->since_ns = known->since_ns;
			return true;
		}
		/* One of the same id that we did not see ending: the exporter finds out by itself.
		 */
		bpf_map_delete_elem(&processes, &thread->tgid);
	}
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	thread->fresh.since_ns = bpf_ktime_get_ns();
	if (!bpf_map_update_elem(&processes, &thread->tgid, &thread->fresh, BPF_NOEXIST)) {
		thread->since_ns = thread->fresh.since_ns;
		if (record) {
			fill_traced(&record->head, thread->since_ns, thread->tgid, TRACED_CAME);
			fill_identity(&record->identity, task);
			SUBMIT(record);
		}
		return true;
	}
	if (record)
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
	/* Another thread of the process was first, or the table is full. */
	known = bpf_map_lookup_elem(&processes, &thread->tgid);
	if (known) {
		thread->since_ns = known->since_ns;
		return true;
	}
	ACCOUNT(lost[LOST_process_table], 1);
	return false;
}

static __always_inline void leave_traced(__u32 tgid)
{
	struct traced_process *process = bpf_map_lookup_elem(&processes, &tgid);
	struct traced_record *record;
	__u64 since_ns;

	if (!process)
		return;
	since_ns = process->since_ns;
	/* Two last threads can both see no other one alive: only one deletes. */
	if (bpf_map_delete_elem(&processes, &tgid))
		return;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record)
		return; /* the exporter finds by itself that the process is gone */
	fill_traced(record, since_ns, tgid, TRACED_WENT);
	SUBMIT(record);
}

#endif
