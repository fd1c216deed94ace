/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A probe's table of the processes that it has traced, by tgid: how they enter it and leave it. Its
 * values begin with a struct process_entry. */
#ifndef GPUSNOOP_PROCESS_TABLE_BPF_H
#define GPUSNOOP_PROCESS_TABLE_BPF_H

#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/names.bpf.h"
#include "bpf/lib/processes/process.h"

/* A process enters the table at its first traced call, in this order:
 *
 *   if (!find_process(...)) {
 *           reserve its record in the ring;
 *           if (add_process(...)) submit the record; else discard it;
 *   }
 *
 * The record has its place in the ring before the process is in the table, so a program that finds
 * the process there sends its records after it. Without room in the ring, the exporter learns of
 * the process from its calls. `fresh` is scratch: the table's value, in which the caller has set
 * start_boottime_ns. */

/* Notes the process's since_ns, if the table has it. */
static __always_inline bool find_process(void *processes, const __u32 *tgid,
					 const struct process_entry *fresh, __u64 *since_ns)
{
	const struct process_entry *known = bpf_map_lookup_elem(processes, tgid);

	if (!known)
		return false;
	if (known->start_boottime_ns == fresh->start_boottime_ns) {
		*since_ns = known->since_ns;
		return true;
	}
	/* A process of the same id whose end was not seen: the exporter finds out by itself. */
	bpf_map_delete_elem(processes, tgid);
	return false;
}

/* Adds the process and notes its since_ns. False: another thread of the process was first, or there
 * is no room. Without room *since_ns stays 0 and a lost call is counted. */
static __always_inline bool add_process(void *processes, const __u32 *tgid,
					struct process_entry *fresh, __u64 *since_ns)
{
	const struct process_entry *known;

	fresh->since_ns = bpf_ktime_get_ns();
	if (!bpf_map_update_elem(processes, tgid, fresh, BPF_NOEXIST)) {
		*since_ns = fresh->since_ns;
		return true;
	}
	known = bpf_map_lookup_elem(processes, tgid);
	if (known)
		*since_ns = known->since_ns;
	else
		ACCOUNT(lost[LOST_process_table], 1);
	return false;
}

/* Takes the process out of the table. Gives its since_ns, and what probes have cost it, to one
 * caller only, and 0 to others: two last threads can both see no other one alive. */
static __always_inline __u64 remove_process(void *processes, const __u32 *tgid, __u64 *cost_ns)
{
	const struct process_entry *known = bpf_map_lookup_elem(processes, tgid);
	__u64 since_ns;

	if (!known)
		return 0;
	since_ns = known->since_ns;
	*cost_ns = known->cost_ns;
	return bpf_map_delete_elem(processes, tgid) ? 0 : since_ns;
}

/* What a thread may have run since the kernel last counted it, at a tick of its clock. */
#define UNCOUNTED_RUN_NS 10000000ULL

/* What the threads of the current process have run, if this is its last one or the one that execs:
 * what the kernel has counted, and what it can have missed of this thread. Threads that end at the
 * same moment may be missing. */
static __always_inline __u64 run_time_of_current(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 run_ns = bpf_ktime_get_ns() - task->start_time;

	if (run_ns > UNCOUNTED_RUN_NS)
		run_ns = UNCOUNTED_RUN_NS;
	run_ns += task->signal->sum_sched_runtime + task->se.sum_exec_runtime;
	if (task->pid != task->tgid)
		run_ns += task->group_leader->se.sum_exec_runtime;
	return run_ns;
}

/* The programs at the ends of threads and processes. An exec ends a process, too: the next program
 * is another process. */
#define END_PROGRAMS(end_thread, end_process)                                                      \
	SEC("tp_btf/sched_process_exit")                                                           \
	int NAMED_PROG(exit, struct task_struct *task)                                             \
	{                                                                                          \
		end_thread(task);                                                                  \
		if (task->signal->live.counter == 0)                                               \
			end_process(task->tgid);                                                   \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("tp_btf/sched_process_exec")                                                           \
	int NAMED_PROG(exec, struct task_struct *task)                                             \
	{                                                                                          \
		end_thread(task);                                                                  \
		end_process(task->tgid);                                                           \
		return 0;                                                                          \
	}

#endif
