/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Adds up what the probes cost each process, in its entry of the probe's table of processes. */
#ifndef GPUSNOOP_COST_BPF_H
#define GPUSNOOP_COST_BPF_H

#include "bpf/lib/call.bpf.h"
#include "bpf/lib/cost.h"
#include "bpf/lib/processes/process.h"

struct probe_costs costs;

/* A thread keeps so much to itself, as its process's entry belongs to all threads. */
#define COST_KEPT_NS (1ULL << 15)

/* Adds what the thread has kept to its process. */
static __always_inline void hand_over_cost(void *processes, const __u32 *tgid, __u64 *kept_ns)
{
	struct process_entry *process = bpf_map_lookup_elem(processes, tgid);

	if (process)
		__sync_fetch_and_add(&process->cost_ns, *kept_ns);
	*kept_ns = 0;
}

/* `kept_ns` is the thread's, and `tgid` its process, which is in the table. */
static __always_inline void add_cost(void *processes, const __u32 *tgid, __u64 *kept_ns, __u32 ns)
{
	*kept_ns += ns;
	if (*kept_ns >= COST_KEPT_NS)
		hand_over_cost(processes, tgid, kept_ns);
}

/* By the probe's attach cookie, as it is. */
static __always_inline __u32 cost_of_entry(__u64 cookie)
{
	return cookie & CALL_STEPPED ? costs.stepped_entry : costs.entry;
}

#endif
