/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The iterators that write the accounts of threads, with the time off the CPU that is still open.
 */
#ifndef GPUSNOOP_HOST_TIME_READING_BPF_H
#define GPUSNOOP_HOST_TIME_READING_BPF_H

#include "bpf/cuda/threads.bpf.h"
#include "bpf/host_time/waits.bpf.h"
#include "bpf/lib/maps.bpf.h"

/* When the hook was attached, CLOCK_MONOTONIC. */
__u64 attached_ns = 0;

/* What the scheduler knows of a thread's last times on and off the CPU. */
struct schedule {
	__u64 arrivals;
	__u64 run_delay_ns;
	__u64 arrived_ns;
	__u64 queued_ns;
};

/* The time off the CPU that is in no account yet. */
struct open_time {
	__u64 ns;
	__u64 ready_ns; /* of it */
	bool is_off;	/* if not, it is over */
};

struct reading {
	struct schedule schedule;
	struct open_time open;
	union {
		struct host_account account;
		struct waits_account waits;
	};
	union {
		struct host_thread_record thread;
		struct host_waits_record waiter;
	} record;
};

PERCPU_MAP(htime_scratch, 1, struct reading);

static __always_inline void read_schedule(struct schedule *schedule, struct task_struct *task)
{
	schedule->arrivals = *(volatile unsigned long *)&task->sched_info.pcount;
	barrier();
	schedule->run_delay_ns = task->sched_info.run_delay;
	schedule->arrived_ns = task->sched_info.last_arrival;
	schedule->queued_ns = task->sched_info.last_queued;
	barrier();
}

#define READ_TRIES 8

/* Copies an account, which begins with its sequence, while nobody changes it. */
static __always_inline bool read_account(void *to, const void *account, __u32 bytes,
					 struct schedule *schedule, struct task_struct *task)
{
	for (int i = 0; i < READ_TRIES; i++) {
		__u64 sequence = *(volatile __u64 *)account;

		barrier();
		if (sequence & 1)
			continue;
		bpf_probe_read_kernel(to, bytes, account);
		read_schedule(schedule, task);
		if (*(volatile __u64 *)account == sequence &&
		    *(volatile unsigned long *)&task->sched_info.pcount == schedule->arrivals)
			return true;
	}
	return false;
}

/* The clock of the run queues, as late as the reader's own has it. */
static __always_inline __u64 queue_clock(void)
{
	return bpf_get_current_task_btf()->se.cfs_rq->rq->clock;
}

static __always_inline void find_open_time(struct open_time *open, const struct departure *left,
					   const struct schedule *schedule)
{
	__u64 until_ns = schedule->arrived_ns;
	__u64 ready_ns = schedule->run_delay_ns - left->run_delay_ns;

	open->is_off = schedule->arrived_ns < left->at_ns;
	if (open->is_off) {
		until_ns = queue_clock();
		if (schedule->queued_ns && until_ns > schedule->queued_ns)
			ready_ns += until_ns - schedule->queued_ns;
	}
	open->ns = until_ns > left->at_ns ? until_ns - left->at_ns : 0;
	open->ready_ns = ready_ns < open->ns ? ready_ns : open->ns;
}

/* To the times by state of a thread, or of one of its phases. */
static __always_inline void add_open_time(__u64 *off_ns, const struct open_time *open, __u32 state)
{
	off_ns[state] += open->ns - open->ready_ns;
	off_ns[state == HOST_STATE_throttled ? HOST_STATE_throttled : HOST_STATE_runnable] +=
	    open->ready_ns;
}

static __always_inline void add_open_off(struct host_thread_record *record, struct reading *reading)
{
	const struct host_account *account = &reading->account;
	__u32 state = account->left.state;
	__u32 phase = account->phase;

	barrier_var(phase);
	barrier_var(state);
	if (!account->left.at_ns || phase >= HOST_PHASE_COUNT || state >= HOST_STATE_COUNT)
		return;
	find_open_time(&reading->open, &account->left, &reading->schedule);
	if (reading->open.is_off) {
		record->open_ns = reading->open.ns;
		record->state = reading->schedule.queued_ns && state != HOST_STATE_throttled
				    ? HOST_STATE_runnable
				    : state;
	}
	add_open_time(record->times.off_ns[phase], &reading->open, state);
}

/* After the calls that have ended: one that ends meanwhile is missing, and is not there twice. */
static __always_inline void add_calls(struct host_thread_record *record,
				      const struct thread *thread, __u64 now_ns)
{
	const struct call *call = &thread->open.call[0];
	__u64 began_ns;
	__u32 function;
	__u32 phase;

	bpf_probe_read_kernel(record->times.call_ns, sizeof(record->times.call_ns),
			      thread->in_calls.ns);
	barrier();
	began_ns = *(volatile __u64 *)&call->started_ns;
	phase = CUDA_COOKIE_PHASE(call->function);
	function = CUDA_COOKIE_FUNCTION(call->function);
	barrier();
	if (!*(volatile __u64 *)&thread->open.depth || !began_ns ||
	    *(volatile __u64 *)&call->started_ns != began_ns || phase >= HOST_PHASE_COUNT)
		return;
	record->phase = phase;
	record->function = function;
	if (now_ns > began_ns)
		record->call_ns = now_ns - began_ns;
	if (began_ns < record->since_ns)
		began_ns = record->since_ns;
	if (now_ns > began_ns)
		record->times.call_ns[phase] += now_ns - began_ns;
}

static __always_inline void fill_thread(struct host_thread_record *record, struct reading *reading,
					struct task_struct *task, const struct thread *thread)
{
	__u64 now_ns = bpf_ktime_get_ns();

	record->process = reading->account.process;
	record->since_ns = reading->account.since_ns;
	record->open_ns = 0;
	record->call_ns = 0;
	record->function = 0;
	record->reserved = 0;
	record->tid = task->pid;
	record->cpu = task->se.cfs_rq->rq->cpu;
	record->state = HOST_STATE_running;
	record->phase = HOST_host;
	record->device = reading->account.device.device;
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), task->comm);
	bpf_probe_read_kernel(&record->times, sizeof(record->times), &reading->account.times);
	bpf_probe_read_kernel(&record->of_device, sizeof(record->of_device),
			      &reading->account.of_device);
	record->times.wall_ns = now_ns > record->since_ns ? now_ns - record->since_ns : 0;
	add_calls(record, thread, now_ns);
	add_open_off(record, reading);
}

SEC("iter/task")
int htime_threads(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct host_account *account;
	struct host_thread_record *record;
	struct reading *reading;
	struct thread *thread;
	__u32 zero = 0;

	if (!task || !task->bpf_storage)
		return 0;
	account = bpf_task_storage_get(&cuda_times, task, NULL, 0);
	thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);
	reading = bpf_map_lookup_elem(&htime_scratch, &zero);
	if (!account || !thread || !reading || account->since_ns < attached_ns ||
	    !read_account(&reading->account, account, sizeof(*account), &reading->schedule, task))
		return 0;
	record = &reading->record.thread;
	fill_thread(record, reading, task, thread);
	bpf_seq_write(context->meta->seq, record, sizeof(*record));
	return 0;
}

static __always_inline void fill_waiter(struct host_waits_record *record, struct reading *reading,
					struct task_struct *task)
{
	const struct waits_account *account = &reading->waits;
	__u32 state = account->left.state;

	record->waiter.since_ns = account->process.since_ns;
	record->waiter.tgid = account->process.tgid;
	bpf_probe_read_kernel(&record->waits, sizeof(record->waits), &account->waits);
	barrier_var(state);
	if (!account->left.at_ns || state >= HOST_STATE_COUNT)
		return;
	find_open_time(&reading->open, &account->left, &reading->schedule);
	add_open_time(record->waits.ns, &reading->open, state);
	if (!reading->open.is_off)
		record->waits.ns[HOST_STATE_running] +=
		    task->se.sum_exec_runtime - account->left.ran_ns;
}

#define PF_EXITING 4

/* Finds threads that ran before their process was followed, too. */
SEC("iter/task")
int htime_waiters(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct host_waits_record *record;
	struct waits_account *account;
	struct followed *process;
	struct reading *reading;
	__u32 zero = 0;

	if (!task || task->flags & PF_EXITING)
		return 0;
	process = followed_process(task);
	reading = bpf_map_lookup_elem(&htime_scratch, &zero);
	if (!process || !reading)
		return 0;
	record = &reading->record.waiter;
	record->waiter.role = role_of(process);
	record->waiter.root = process->root;
	record->waiter.reserved = 0;
	account = waits_of(task, process);
	if (!account ||
	    !read_account(&reading->waits, account, sizeof(*account), &reading->schedule, task))
		return 0;
	fill_waiter(record, reading, task);
	bpf_seq_write(context->meta->seq, record, sizeof(*record));
	return 0;
}

#endif
