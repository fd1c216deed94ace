// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Keeps the table of targets, the processes that the configuration names. Children of a process
 * matched by comm or container are traced too. A process whose comm matches after an exec is traced
 * at once; after every exec, the exporter re-evaluates the process. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/guard.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/process_details.bpf.h"
#include "bpf/lib/processes/target.h"

HASH_MAP(target_procs, TARGET_MAX_PROCESSES, __u32, struct target);

RING_MAP(target_events, 1 << 20);

ARRAY_MAP(target_patterns, TARGET_PATTERNS, struct target_pattern);

const volatile __u32 pattern_count = 0;
const volatile __u32 parents[TARGET_PARENTS] = {};
const volatile __u32 parent_count = 0;

/* Counts targets without room in the table, and execs without room in the ring. */
__u64 targets_lost = 0;
__u64 execs_lost = 0;

static __always_inline bool is_parent(__u32 tgid)
{
	for (__u32 i = 0; i < TARGET_PARENTS; i++)
		if (i < parent_count && parents[i] == tgid)
			return true;
	return false;
}

static __always_inline void enter_target(struct task_struct *leader, bool inherited)
{
	struct target fresh = {.inherited = inherited};
	__u32 tgid = leader->tgid;

	fresh.since_ns = bpf_ktime_get_ns();
	fresh.start_boottime_ns = leader->start_boottime;
	if (bpf_map_update_elem(&target_procs, &tgid, &fresh, BPF_ANY))
		__sync_fetch_and_add(&targets_lost, 1);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(target_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = parent->tgid;
	struct target *of_parent;

	if (child->tgid == parent->tgid)
		return 0;
	of_parent = bpf_map_lookup_elem(&target_procs, &tgid);
	if (of_parent && of_parent->inherited)
		enter_target(child, true);
	else if (is_parent(child->real_parent->tgid))
		enter_target(child, false);
	return 0;
}

static __always_inline bool matches(const struct target_pattern *pattern, const char *comm)
{
	__u32 state = 1;

	for (int i = 0; i < PROCESS_COMM_BYTES; i++) {
		__u32 byte = (__u8)comm[i];

		state = (state << 1 & pattern->next[byte]) | (state & pattern->stays[byte]);
	}
	return state >> (pattern->whole & 31) & 1;
}

static __always_inline bool is_named(struct task_struct *leader)
{
	char comm[PROCESS_COMM_BYTES];

	bpf_probe_read_kernel(comm, sizeof(comm), leader->comm);
	for (__u32 i = 0; i < TARGET_PATTERNS && i < pattern_count; i++) {
		__u32 key = i;
		const struct target_pattern *pattern = bpf_map_lookup_elem(&target_patterns, &key);

		if (pattern && matches(pattern, comm))
			return true;
	}
	return false;
}

/* A process that matches by name is a target from its first system call on. The exporter checks the
 * others, and whether a target still is one. */
static __always_inline void enter_named(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	__u32 tgid = task->tgid;
	struct target *known;

	if (!pattern_count || !is_named(leader))
		return;
	known = bpf_map_lookup_elem(&target_procs, &tgid);
	if (known && leader->start_boottime - known->start_boottime_ns < TARGET_CLOCK_TICK_NS)
		known->inherited = 1;
	else
		enter_target(leader, true);
}

static __always_inline void on_exec(struct task_struct *task)
{
	struct target_exec_record *record;

	enter_named(task);
	record = bpf_ringbuf_reserve(&target_events, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&execs_lost, 1);
		return;
	}
	record->tgid = task->tgid;
	record->reserved = 0;
	fill_identity(&record->identity, task);
	FILL_PART(record, cgroup, read_cgroup);
	/* The exporter must read this before it finds its targets, whose system calls are not
	 * counted until then: so it is woken. */
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(target_exec, struct task_struct *task)
{
	tracepoint_guard_begin();
	on_exec(task);
	tracepoint_guard_end();
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(target_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	if (task->signal->live.counter == 0)
		bpf_map_delete_elem(&target_procs, &tgid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
