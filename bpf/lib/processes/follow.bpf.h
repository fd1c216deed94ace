/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Enters processes into the table of followed processes. For the programs of `cuda`, which enter a
 * process at its first CUDA call, and for follow.bpf.c, which does the rest. */
#ifndef GPUSNOOP_FOLLOW_BPF_H
#define GPUSNOOP_FOLLOW_BPF_H

#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"
#include "bpf/lib/processes/process.bpf.h"
#include "bpf/lib/processes/process_details.bpf.h"

/* Room for 650 starts, which the exporter reads every few milliseconds. */
RING_MAP(follow_events, 1 << 20);

PERCPU_MAP(follow_counts, 1, struct follow_counts);

/* Those that have found no room in the table. They are tried again whenever the exporter looks for
 * processes that run already, and count once. */
THREAD_MAP(follow_refused, __u32);

static const struct followed not_followed;
static const __u32 follow_counts_key = 0; /* not on the stack, of which uprobe programs lack some */

#define FOLLOW_COUNT(counter)                                                                      \
	({                                                                                         \
		struct follow_counts *counts_ =                                                    \
		    bpf_map_lookup_elem(&follow_counts, &follow_counts_key);                       \
		if (counts_)                                                                       \
			__sync_fetch_and_add(&counts_->counter, 1);                                \
	})

static __always_inline void fill_follow(struct follow_record *record,
					const struct followed *process, __u32 tgid, __u32 type)
{
	record->head.at_ns = bpf_ktime_get_ns();
	record->head.since_ns = process->since_ns;
	record->head.tgid = tgid;
	record->head.type = type;
	record->reasons = process->reasons;
	record->root = process->root;
}

static __always_inline void send_follow(const struct followed *process, __u32 tgid, __u32 type)
{
	struct follow_record *record;

	FOLLOW_COUNT(entered);
	record = bpf_ringbuf_reserve(&follow_events, sizeof(*record), 0);
	if (!record) {
		FOLLOW_COUNT(ring_full);
		return;
	}
	fill_follow(record, process, tgid, type);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	FOLLOW_COUNT(events);
}

/* `leader` is the current process, or a child that it has just forked and that has its arguments
 * and its cgroup. */
static __always_inline void send_follow_start(const struct followed *process,
					      struct task_struct *leader)
{
	struct follow_start_record *record;

	FOLLOW_COUNT(entered);
	record = bpf_ringbuf_reserve(&follow_events, sizeof(*record), 0);
	if (!record) {
		FOLLOW_COUNT(ring_full);
		return;
	}
	fill_follow(&record->head, process, leader->tgid, FOLLOW_STARTED);
	fill_identity(&record->identity, leader);
	FILL_PART(record, details, fill_details);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	FOLLOW_COUNT(events);
}

static __always_inline void count_refused(struct task_struct *leader)
{
	__u32 *is_counted =
	    bpf_task_storage_get(&follow_refused, leader, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (is_counted && __sync_lock_test_and_set(is_counted, 1))
		return;
	FOLLOW_COUNT(entered);
	FOLLOW_COUNT(table_full);
}

/* Enters a process that has no entry, or an old one. NULL: there is no room, which is counted.
 * `root` 0: itself. `tgid`: the leader's, where a key may lie. */
static __always_inline struct followed *add_followed(struct task_struct *leader, const __u32 *tgid,
						     __u64 since_ns, __u32 reasons, __u32 root)
{
	struct followed *fresh;

	add_to_process_filter(&follow_filter, *tgid);
	bpf_map_update_elem(&follow_procs, tgid, &not_followed, BPF_ANY);
	fresh = bpf_map_lookup_elem(&follow_procs, tgid);
	if (!fresh) {
		count_refused(leader);
		return NULL;
	}
	fresh->since_ns = since_ns;
	fresh->start_boottime_ns = leader->start_boottime;
	fresh->root = root ? root : *tgid;
	fresh->reasons = reasons; /* the last: without it, the process is not followed */
	return fresh;
}

/* The current process, `tgid`, has made its first CUDA call, at `since_ns`. Both are in the
 * thread's state: a uprobe program has hardly any stack. */
static __always_inline void follow_gpu_process(const __u32 *tgid, const __u64 *since_ns)
{
	struct followed *process = bpf_map_lookup_elem(&follow_procs, tgid);

	FOLLOW_COUNT(gpu_processes);
	if (process && process->reasons &&
	    process->start_boottime_ns ==
		bpf_get_current_task_btf()->group_leader->start_boottime) {
		__u32 before = __sync_fetch_and_or(&process->reasons, FOLLOWED_CUDA);

		if (before == FOLLOWED_CHILD)
			send_follow(process, *tgid, FOLLOW_PROMOTED);
		return;
	}
	process = add_followed(bpf_get_current_task_btf()->group_leader, tgid, *since_ns,
			       FOLLOWED_CUDA, 0);
	if (process)
		send_follow_start(process, bpf_get_current_task_btf()->group_leader);
}

#endif
