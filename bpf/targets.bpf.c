// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Keeps the table of targets, processes that the configuration names, as processes come and go:
 * the children of one that is
 * named by its comm or its container are targets too, and what becomes another program is judged
 * anew by the exporter.
 */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/guard.bpf.h"
#include "bpf/lib/process.bpf.h"
#include "bpf/lib/target.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TARGET_MAX_PROCESSES);
	__type(key, __u32);
	__type(value, struct target);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} execs SEC(".maps");

/* Targets that found no room in the table, and execs that found none in the ring. */
__u64 targets_lost = 0;
__u64 execs_lost = 0;

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = parent->tgid;
	struct target fresh = {.inherited = 1};
	struct target *of_parent;

	if (child->tgid == parent->tgid)
		return 0;
	of_parent = bpf_map_lookup_elem(&targets, &tgid);
	if (!of_parent || !of_parent->inherited)
		return 0;
	tgid = child->tgid;
	fresh.since_ns = bpf_ktime_get_ns();
	fresh.start_boottime_ns = child->start_boottime;
	if (bpf_map_update_elem(&targets, &tgid, &fresh, BPF_ANY))
		__sync_fetch_and_add(&targets_lost, 1);
	return 0;
}

static __always_inline void on_exec(struct task_struct *task)
{
	struct target_exec_record *record = bpf_ringbuf_reserve(&execs, sizeof(*record), 0);

	if (!record) {
		__sync_fetch_and_add(&execs_lost, 1);
		return;
	}
	record->tgid = task->tgid;
	record->reserved = 0;
	fill_identity(&record->identity, task);
	/* Its system calls go by until the exporter has read this, so it is woken. */
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	tracepoint_guard_begin();
	on_exec(task);
	tracepoint_guard_end();
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	if (task->signal->live.counter == 0)
		bpf_map_delete_elem(&targets, &tgid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
