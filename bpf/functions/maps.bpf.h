/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The `functions` probe's settings, rings and tables. */
#ifndef GPUSNOOP_FUNC_MAPS_BPF_H
#define GPUSNOOP_FUNC_MAPS_BPF_H

#include "bpf/functions/threads.bpf.h"
#include "bpf/lib/cost.bpf.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/process.bpf.h"
#include "bpf/lib/processes/process_details.bpf.h"
#include "bpf/lib/processes/process_table.bpf.h"
#include "bpf/lib/traced_pids.bpf.h"

/* Calls that one process may record a second; 0: no limit. */
const volatile __u64 max_calls_per_second = 0;

/* For a trace: calls that are faster than their function's slow_ns send nothing. */
const volatile bool only_slow = false;

/* Each call whose end is seen also sends a record when it begins. That record is no event, and is
 * in no account. It has the time from which the call's duration counts: this connects the two
 * records. */
const volatile bool send_entries = false;
__u64 entries_lost = 0;

/* Slow calls have their own ring, as their records are long. If it is full and the ring of calls is
 * not, they are sent as other calls are, and counted here. */
__u64 slow_details_lost = 0;

RING_MAP(func_events, 8 << 20);

RING_MAP(func_slow, 1 << 20);

/* Starts and ends of processes. A short process whose start finds no room has no name on the page,
 * so calls do not share this ring. Room for 800 of both, which the exporter reads every 10 ms. */
RING_MAP(func_lifecycle, 1 << 20);

ARRAY_MAP(func_options, FUNC_MAX_FUNCTIONS, struct func_options);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* the loader makes it grow on demand, from 6.1 on */
	__type(key, __u32);
	__type(value, struct func_process);
} func_procs SEC(".maps");

static __always_inline void add_func_cost(struct thread *thread, __u32 ns)
{
	add_cost(&func_procs, &thread->tgid, &thread->cost_ns, ns);
}

/* Of a function that is muted: no call counts for it. */
static __always_inline void add_muted_cost(struct thread *thread, __u32 ns)
{
	struct func_process *process = bpf_map_lookup_elem(&func_procs, &thread->tgid);

	if (!process)
		return;
	__sync_fetch_and_add(&process->entry.cost_ns, ns);
	__sync_fetch_and_add(&process->muted_ns, ns);
}

static __always_inline void fill_head(struct func_record *head, __u64 since_ns, __u32 tgid,
				      enum func_record_type type)
{
	head->ended_ns = bpf_ktime_get_ns();
	head->since_ns = since_ns;
	head->tgid = tgid;
	head->type = type;
}

#endif
