/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The processes that make CUDA calls: when they begin, when they end, and how many
 * records a process may send. */
#ifndef GPUSNOOP_CUDA_PROCESS_BPF_H
#define GPUSNOOP_CUDA_PROCESS_BPF_H

#include "bpf/cuda/graphs/captures.bpf.h"
#include "bpf/cuda/threads.bpf.h"
#include "bpf/lib/cost.bpf.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/follow.bpf.h"
#include "bpf/lib/processes/process.bpf.h"
#include "bpf/lib/processes/process_details.bpf.h"
#include "bpf/lib/processes/process_table.bpf.h"
#include "bpf/lib/processes/process_filter.bpf.h"

/* Calls of the calls ring that one process may record a second; 0: no limit. */
const volatile __u64 max_calls_per_second = 0;

/* Enter GPU processes into the table of followed processes, too? If not, its maps do not exist. */
const volatile bool follow = false;

/* Allocations and frees: never throttled, never crowded out by calls. */
RING_MAP(cuda_mem_events, 4 << 20);

/* Starts and ends of processes. A short process whose start finds no room has no name on the page,
 * so not even its own allocations share this ring. Room for 800 starts, which the exporter reads
 * every 10 ms. */
RING_MAP(cuda_lifecycle, 1 << 20);

/* The GPU processes: entered at the first CUDA call, left at exit and exec. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* the loader makes it grow on demand, from 6.1 on */
	__type(key, __u32);
	__type(value, struct cuda_live_process);
} cuda_procs SEC(".maps");

/* Enough for the processes that end between two reads of the exporter; new entries replace the
 * oldest. */
LRU_MAP(cuda_ended, 1024, struct cuda_live_key, struct cuda_live_process);

struct process_filter cuda_filter SEC(".maps");

/* May launches be counted at the driver's entry alone, or be seen in turns? */
const volatile bool counts_launches = false;

/* The processes of which that is so, or was. The exporter enters them. */
ON_DEMAND_MAP(cuda_sights, 16384, __u32, struct cuda_sight);

/* By process. The exporter enters them. */
ON_DEMAND_MAP(cuda_detaches, 16384, __u32, struct cuda_detached);

/* Some process's launches are counted at the driver's entry. */
bool notes_other_calls;

/* An exchange of the links to launches of the driver: its number, and CUDA_EXCHANGE_WAY. */
__u64 launch_exchange;

/* May launches of the thread's process since then be unseen? */
static __always_inline bool may_have_unseen(const struct thread *thread, __u64 since_ns)
{
	const struct cuda_sight *sight;

	if (!counts_launches)
		return false;
	sight = bpf_map_lookup_elem(&cuda_sights, &thread->tgid);
	return sight && (!sight->seen_since_ns || since_ns < sight->seen_since_ns);
}

/* Is the thread's open call a launch whose end was not seen, as it was detached from meanwhile? */
static __always_inline bool is_cut_off(const struct thread *thread)
{
	const struct call *call = &thread->open.call[0];
	const struct cuda_detached *detached;

	if (!counts_launches || !thread->open.depth ||
	    !CUDA_LAUNCHES_KERNEL(CUDA_COOKIE_OPERATION(call->function)))
		return false;
	detached = bpf_map_lookup_elem(&cuda_detaches, &thread->tgid);
	if (!detached)
		return false;
	return call->started_ns <
	       (call->function & CUDA_OF_DRIVER ? detached->driver_ns : detached->runtime_ns);
}

static __always_inline void fill_head(struct cuda_record *head, __u64 since_ns, __u32 tgid,
				      enum cuda_record_type type)
{
	head->ended_ns = bpf_ktime_get_ns();
	head->duration_ns = 0;
	head->since_ns = since_ns;
	head->tgid = tgid;
	head->type = type;
	head->function = CUDA_NO_FUNCTION;
	head->result = 0;
	head->device = CUDA_DEVICE_UNCHOSEN;
}

static __always_inline struct cuda_process_record *fill_process(struct cuda_process_record *record,
								__u64 since_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm;
	struct inode *exe;

	fill_head(&record->head, since_ns, task->tgid, CUDA_RECORD_PROCESS);
	mm = task->mm; /* not earlier: it would take stack */
	exe = mm->exe_file->f_inode;
	record->code_start = mm->start_code;
	record->code_end = mm->end_code;
	record->exe_inode = exe->i_ino;
	record->exe_bytes = exe->i_size;
	record->exe_device = exe->i_sb->s_dev;
	record->exe_generation = exe->i_generation;
	fill_identity(&record->identity, task);
	FILL_PART(record, details, fill_details);
	return record;
}

/* Enters the thread's process at its first CUDA call and notes its since_ns; 0 stays: no room. If
 * the ring has no room for its record, the exporter can still find the process in the table. */
static __always_inline void enter_process(struct thread *thread)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct process_entry *fresh = (struct process_entry *)&thread->fresh;
	struct cuda_process_record *record;

	_Static_assert(__builtin_offsetof(struct cuda_live_process, start_boottime_ns) ==
			       __builtin_offsetof(struct process_entry, start_boottime_ns) &&
			   __builtin_offsetof(struct cuda_live_process, cost_ns) ==
			       __builtin_offsetof(struct process_entry, cost_ns),
		       "a table's values begin with a struct process_entry");
	thread->tgid = task->tgid;
	fresh->start_boottime_ns = task->group_leader->start_boottime;
	if (find_process(&cuda_procs, &thread->tgid, fresh, &thread->since_ns))
		return;
	record = bpf_ringbuf_reserve(&cuda_lifecycle, sizeof(*record), 0);
	add_to_process_filter(&cuda_filter, thread->tgid);
	if (add_process(&cuda_procs, &thread->tgid, fresh, &thread->since_ns)) {
		if (record) {
			record = fill_process(record, thread->since_ns);
			SUBMIT(record);
		}
		if (follow)
			follow_gpu_process(&thread->tgid, &thread->since_ns);
	} else if (record) {
		DISCARD(record);
	}
}

static __always_inline void add_cuda_cost(struct thread *thread, __u32 ns)
{
	add_cost(&cuda_procs, &thread->tgid, &thread->cost_ns, ns);
}

/* A thread keeps so many launches to itself. */
#define LAUNCHES_KEPT 16

static __always_inline void hand_over_launches(struct thread *thread)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);

	if (process)
		__sync_fetch_and_add(&process->launches, thread->kept_launches);
	thread->kept_launches = 0;
}

/* A launch that is seen or counted. */
static __always_inline void note_launch(struct thread *thread)
{
	if (counts_launches && ++thread->kept_launches >= LAUNCHES_KEPT)
		hand_over_launches(thread);
}

/* Other calls are made in pauses, too: from these and the launches for each of them in a turn, the
 * launches of the pauses are estimated. */
static __always_inline void note_other_call(struct thread *thread)
{
	struct cuda_live_process *process;

	if (!notes_other_calls)
		return;
	process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);
	if (process)
		__sync_fetch_and_add(&process->other_calls, 1);
}

/* May the process record one more call in the calls ring? */
static __always_inline bool within_budget(struct thread *thread)
{
	struct cuda_live_process *process;

	if (!max_calls_per_second)
		return true;
	if (thread->lease) {
		thread->lease--;
		return true;
	}
	process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);
	return !process ||
	       take_lease(&process->budget, &thread->lease, thread->ended_ns, max_calls_per_second);
}

/* A record about the process's memory was lost: the exporter must read the table of live
 * allocations. */
static __always_inline void count_lost_allocation(struct thread *thread)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);

	ACCOUNT(lost[LOST_ring_full], 1);
	if (process)
		__sync_fetch_and_add(&process->lost_allocations, 1);
}

/* The head of a finished call's record. */
static __always_inline void fill_call(struct cuda_record *head, const struct thread *thread,
				      const struct call *call, enum cuda_record_type type)
{
	head->ended_ns = thread->ended_ns;
	head->duration_ns = thread->ended_ns - call->started_ns;
	head->since_ns = thread->since_ns;
	head->tgid = thread->tgid;
	head->type = type;
	head->function = CUDA_COOKIE_FUNCTION(call->function) |
			 (thread->nested & CUDA_OF_DRIVER ? CUDA_CALLED_DRIVER : 0);
	head->result = thread->result;
	head->device = thread->chosen.ordinal_plus_1 - 1;
}

static __always_inline __u64 argument(const struct call *call, enum cuda_cookie_field field)
{
	return call->argument[(call->function >> field) & (CALL_SLOTS - 1)];
}

/* A size that may have a second factor. */
static __always_inline __u64 counted_bytes(const struct call *call, __u64 size)
{
	return (call->function >> CUDA_COUNT) & (CALL_SLOTS - 1) ? size * argument(call, CUDA_COUNT)
								 : size;
}

/* A key into one of the tables, in the thread's scratch. */
static __always_inline void set_key(struct thread *thread, __u64 address,
				    enum cuda_live_space space)
{
	thread->key.address = address;
	thread->key.since_ns = thread->since_ns;
	thread->key.tgid = thread->tgid;
	thread->key.space = space;
}

/* If records of a process's memory were lost, or the record of its end, the exporter reads its last
 * numbers from the tables. */
static __always_inline void keep_ended(__u32 tgid, struct cuda_live_process *process)
{
	struct cuda_live_key key = {
	    .since_ns = process->since_ns, .tgid = tgid, .space = CUDA_LIVE_ENDED};

	bpf_map_update_elem(&cuda_ended, &key, process, BPF_ANY);
}

static __always_inline void forget_process(__u32 tgid)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &tgid);
	struct cuda_exit_record *record;

	/* Two last threads can both see no other one alive: only one ends it. */
	if (!process || __sync_lock_test_and_set(&process->ended_ns, bpf_ktime_get_ns()))
		return;
	forget_captures(process->captures);
	record = bpf_ringbuf_reserve(&cuda_lifecycle, sizeof(*record), 0);
	if (process->lost_allocations || !record)
		keep_ended(tgid, process);
	if (record) {
		fill_head(&record->head, process->since_ns, tgid, CUDA_RECORD_EXIT);
		record->lost_allocations = process->lost_allocations;
		record->cost_ns = process->cost_ns;
		record->run_ns = run_time_of_current();
	}
	/* Before the record is sent: its reader must not find the process running. */
	bpf_map_delete_elem(&cuda_procs, &tgid);
	take_from_process_filter(&cuda_filter, tgid);
	if (record)
		SUBMIT(record);
}

#endif
