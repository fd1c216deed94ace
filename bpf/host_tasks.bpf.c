// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What the kernel keeps of each thread anyhow, read by an iterator. What a thread had is added to
 * its process's entry when the kernel frees it: at its exit, its last time on the CPU is not
 * counted yet. Until then, after it has left the list of threads, a sum can be lower than before.
 */
#define PROBE tasks

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/host_tasks.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"
#include "bpf/lib/guard.bpf.h"

RING_MAP(tasks_events, 256 << 10);

/* By tgid. The exporter deletes entries of processes that are gone. */
ON_DEMAND_MAP(tasks_past, FOLLOWED_MAX_PROCESSES, __u32, struct tasks_past);

static const struct tasks_past no_past;

/* Calls OF(enum tasks_sum, value) for each of a thread's sums. */
#define EACH_OF_THREAD(task, OF)                                                                   \
	OF(TASKS_CPU_NS, (task)->se.sum_exec_runtime)                                              \
	OF(TASKS_RUNQUEUE_NS, runqueue_of(task))                                                   \
	OF(TASKS_VOLUNTARY, (task)->nvcsw)                                                         \
	OF(TASKS_INVOLUNTARY, (task)->nivcsw)                                                      \
	OF(TASKS_MINOR_FAULTS, (task)->min_flt)                                                    \
	OF(TASKS_MAJOR_FAULTS, (task)->maj_flt)                                                    \
	OF(TASKS_READ_BYTES, bytes_of((task)->ioac, read_bytes))                                   \
	OF(TASKS_WRITTEN_BYTES, bytes_of((task)->ioac, write_bytes))

/* The same of the threads that the kernel has forgotten. It does not add up their waits for a CPU.
 */
#define EACH_OF_FORGOTTEN(signal, OF)                                                              \
	OF(TASKS_CPU_NS, (signal)->sum_sched_runtime)                                              \
	OF(TASKS_VOLUNTARY, (signal)->nvcsw)                                                       \
	OF(TASKS_INVOLUNTARY, (signal)->nivcsw)                                                    \
	OF(TASKS_MINOR_FAULTS, (signal)->min_flt)                                                  \
	OF(TASKS_MAJOR_FAULTS, (signal)->maj_flt)                                                  \
	OF(TASKS_READ_BYTES, bytes_of((signal)->ioac, read_bytes))                                 \
	OF(TASKS_WRITTEN_BYTES, bytes_of((signal)->ioac, write_bytes))

#define bytes_of(accounting, field)                                                                \
	(bpf_core_field_exists((accounting).field) ? (accounting).field : 0)

static __always_inline __u64 runqueue_of(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

#define SET(at, value)	      to->of[at] = (value);
#define ADD(at, value)	      to->of[at] += (value);
#define ADD_ATOMIC(at, value) __sync_fetch_and_add(&to->of[at], (value));

static __always_inline void set_sums_of_thread(struct tasks_sums *to, struct task_struct *task)
{
	EACH_OF_THREAD(task, SET)
}

static __always_inline void add_sums_of_thread(struct tasks_sums *to, struct task_struct *task)
{
	EACH_OF_THREAD(task, ADD)
}

static __always_inline void add_ended(struct tasks_sums *to, struct task_struct *task)
{
	EACH_OF_THREAD(task, ADD_ATOMIC)
}

static __always_inline void add_forgotten(struct tasks_sums *to, struct signal_struct *signal)
{
	EACH_OF_FORGOTTEN(signal, ADD)
}

/* A process of the same id has another signal_struct while a thread of this one is there. */
static __always_inline struct tasks_past *find_past(struct task_struct *task)
{
	struct tasks_past *past;
	__u32 tgid = task->tgid;

	past = bpf_map_lookup_elem(&tasks_past, &tgid);
	return past && past->signal == (__u64)task->signal ? past : NULL;
}

/* Makes the entry of a followed process, if it has none. */
static __always_inline struct tasks_past *past_of(struct task_struct *task,
						  const struct followed *process)
{
	struct tasks_past *past = find_past(task);
	__u32 tgid = task->tgid;

	if (past)
		return past;
	bpf_map_update_elem(&tasks_past, &tgid, &no_past, BPF_ANY);
	past = bpf_map_lookup_elem(&tasks_past, &tgid);
	if (!past) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_table_full], 1);
		return NULL;
	}
	add_forgotten(&past->ended, task->signal);
	past->since_ns = process->since_ns;
	past->role = role_of(process);
	past->signal = (__u64)task->signal;
	return past;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(tasks_fork, struct task_struct *parent, struct task_struct *child)
{
	struct followed *process;

	if (child->tgid == parent->tgid)
		return 0;
	tracepoint_guard_begin();
	process = followed_process(child);
	if (process)
		past_of(child, process);
	tracepoint_guard_end();
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(tasks_free, struct task_struct *task)
{
	struct tasks_past *past;

	tracepoint_guard_begin();
	past = find_past(task);
	if (past)
		add_ended(&past->ended, task);
	tracepoint_guard_end();
	return 0;
}

/* All other threads have ended. The entry of the table is the next program's already. */
static __always_inline void on_exec(struct task_struct *task)
{
	struct followed *process = followed_entry(task);
	struct tasks_exec_record *record;
	struct tasks_past *past;

	if (!process)
		return;
	past = past_of(task, process);
	if (!past)
		return;
	if (process->former_since_ns) {
		ACCOUNT(entered, 1);
		record = bpf_ringbuf_reserve(&tasks_events, sizeof(*record), 0);
		if (record) {
			record->head.at_ns = bpf_ktime_get_ns();
			record->head.since_ns = process->former_since_ns;
			record->head.tgid = task->tgid;
			record->head.type = 0;
			record->role = process->former_role;
			record->reserved = 0;
			set_sums_of_thread(&record->sums, task);
			for (int i = 0; i < TASKS_SUMS; i++)
				record->sums.of[i] += past->ended.of[i] - past->base.of[i];
			SUBMIT(record);
			ACCOUNT(events, 1);
		} else {
			ACCOUNT(lost[LOST_ring_full], 1);
		}
	}
	past->base = past->ended;
	add_sums_of_thread(&past->base, task);
	past->since_ns = process->since_ns;
	past->role = role_of(process);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(tasks_exec, struct task_struct *task)
{
	tracepoint_guard_begin();
	on_exec(task);
	tracepoint_guard_end();
	return 0;
}

static __always_inline void fill_pages(__s64 *pages, struct mm_struct *mm)
{
	struct mm_struct___before_6_2 *old = (void *)mm;

	/* No loop: only a constant index follows the kernel's layout. By bpf_core_read, as the
	 * verifier of Linux 6.1 refuses to read an atomic_long_t within an array. */
#define PAGES_OF(i)                                                                                \
	if (bpf_core_field_exists(old->rss_stat.count))                                            \
		bpf_core_read(&pages[i], sizeof(pages[i]), &old->rss_stat.count[i].counter);       \
	else                                                                                       \
		bpf_core_read(&pages[i], sizeof(pages[i]), &mm->rss_stat[i].count);
	PAGES_OF(TASKS_FILE);
	PAGES_OF(TASKS_ANON);
	PAGES_OF(TASKS_SWAP);
	PAGES_OF(TASKS_SHMEM);
#undef PAGES_OF
	pages[TASKS_LOCKED] = mm->locked_vm;
	pages[TASKS_PINNED] = mm->pinned_vm.counter;
}

/* Too much for the stack. One reader runs the iterator. */
PERCPU_MAP(tasks_scratch, 1, struct tasks_thread);

SEC("iter/task")
int tasks_read(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct tasks_thread *thread;
	struct followed *process;
	__u32 zero = 0;

	if (!task)
		return 0;
	process = followed_process(task);
	thread = bpf_map_lookup_elem(&tasks_scratch, &zero);
	if (!process || !thread)
		return 0;
	/* A zombie: the exporter has read it, and forgets it. */
	if (process->ended_ns && bpf_ktime_get_ns() - process->ended_ns > TASKS_READ_AFTER_END_NS)
		return 0;
	__builtin_memset(thread, 0, sizeof(*thread));
	thread->since_ns = process->since_ns;
	thread->tgid = task->tgid;
	thread->role = role_of(process);
	set_sums_of_thread(&thread->sums, task);
	if (task->pid == task->tgid) {
		struct tasks_past *past = past_of(task, process);

		if (past)
			past->role = thread->role; /* it may have become another one */
	}
	if (task->mm && (task->pid == task->tgid || !task->group_leader->mm)) {
		thread->has_memory = 1;
		fill_pages(thread->pages, task->mm);
	}
	bpf_seq_write(context->meta->seq, thread, sizeof(*thread));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
