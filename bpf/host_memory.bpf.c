// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The time in which threads of followed processes reclaim and compact memory. */
#define PROBE memory

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/host_memory.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"
#include "bpf/lib/guard.bpf.h"

ON_DEMAND_MAP(memory_counts, 16384, struct memory_key, struct memory_stalls);

/* A thread can be in one of each kind. */
struct thread {
	__u64 started_ns[MEMORY_STALLS]; /* 0: in none */
};

THREAD_MAP(memory_threads, struct thread);

static const struct memory_stalls no_stalls;

static __always_inline void begin(enum memory_stall kind)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!followed_process(task))
		return;
	ACCOUNT(entered, 1);
	thread = bpf_task_storage_get(&memory_threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ACCOUNT(lost[LOST_no_state], 1);
		return;
	}
	if (thread->started_ns[kind])
		ACCOUNT(stale, 1); /* its end was skipped */
	thread->started_ns[kind] = bpf_ktime_get_ns();
}

static __always_inline void count(const struct followed *process, __u32 tgid,
				  enum memory_stall kind, __u64 nanoseconds)
{
	struct memory_key key = {
	    .since_ns = process->since_ns, .tgid = tgid, .kind = kind, .role = role_of(process)};
	struct memory_stalls *stalls = bpf_map_lookup_elem(&memory_counts, &key);

	if (!stalls) {
		bpf_map_update_elem(&memory_counts, &key, &no_stalls, BPF_NOEXIST);
		stalls = bpf_map_lookup_elem(&memory_counts, &key);
	}
	if (!stalls) {
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	__sync_fetch_and_add(&stalls->nanoseconds, nanoseconds);
	__sync_fetch_and_add(&stalls->count, 1);
	ACCOUNT(events, 1);
}

static __always_inline void end(enum memory_stall kind)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct followed *process;
	struct thread *thread;
	__u64 started_ns;

	thread = bpf_task_storage_get(&memory_threads, task, NULL, 0);
	if (!thread)
		return;
	started_ns = thread->started_ns[kind];
	thread->started_ns[kind] = 0;
	if (!started_ns)
		return;
	process = followed_process(task);
	if (process)
		count(process, task->tgid, kind, bpf_ktime_get_ns() - started_ns);
	else
		ACCOUNT(stale, 1); /* it is not followed any more */
}

/* The two programs of a kind. No argument is read, as they differ by kernel. */
#define STALL_PROGRAMS(tracepoint, part, kind)                                                     \
	SEC("tp_btf/" #tracepoint "_begin")                                                        \
	int memory_##part##_in(void *context)                                                      \
	{                                                                                          \
		tracepoint_guard_begin();                                                          \
		begin(kind);                                                                       \
		tracepoint_guard_end();                                                            \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("tp_btf/" #tracepoint "_end")                                                          \
	int memory_##part##_out(void *context)                                                     \
	{                                                                                          \
		tracepoint_guard_begin();                                                          \
		end(kind);                                                                         \
		tracepoint_guard_end();                                                            \
		return 0;                                                                          \
	}

STALL_PROGRAMS(mm_vmscan_direct_reclaim, dr, MEMORY_DIRECT)
STALL_PROGRAMS(mm_vmscan_memcg_reclaim, mr, MEMORY_MEMCG)
STALL_PROGRAMS(mm_compaction, co, MEMORY_COMPACTION)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
