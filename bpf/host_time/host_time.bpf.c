// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Counts where the time of launching threads goes. One hook is enough, where a thread leaves its
 * CPU: the kernel has noted when it got the CPU, how long it had waited for one, and which system
 * call it is in. The hook runs with interrupts off and a lock of the scheduler held: it allocates
 * nothing and sends nothing. */
#define PROBE htime

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/cuda/threads.bpf.h"
#include "bpf/host_time/accounts.bpf.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/followed.bpf.h"
#include "bpf/lib/open_calls.bpf.h"

/* The class of each system call. */
const volatile __u8 classes[HOST_CALLS] = {};

/* When the hook was attached, CLOCK_MONOTONIC. */
__u64 attached_ns = 0;

/* Bits of the kernel's __state, as in its include/linux/sched.h. */
#define TASK_STOPPED 4
#define TASK_TRACED  8

/* As in the kernel's include/uapi/linux/stat.h and magic.h. */
#define S_IFMT		    0170000
#define S_IFSOCK	    0140000
#define S_IFREG		    0100000
#define S_IFBLK		    0060000
#define S_IFDIR		    0040000
#define S_IFCHR		    0020000
#define S_IFIFO		    0010000
#define ANON_INODE_FS_MAGIC 0x09041934

struct host_reading {
	struct host_account account;
	__u64 arrivals;
	__u64 run_delay_ns;
	__u64 arrived_ns;
	__u64 queued_ns;
	__u64 ready_ns;
	struct host_thread_record record;
};

static __always_inline enum host_state state_of_mode(__u32 mode)
{
	switch (mode & S_IFMT) {
	case S_IFSOCK:
		return HOST_STATE_socket;
	case S_IFIFO:
		return HOST_STATE_pipe;
	case S_IFCHR:
		return HOST_STATE_device;
	case S_IFREG:
	case S_IFDIR:
	case S_IFBLK:
		return HOST_STATE_file;
	}
	return HOST_STATE_other;
}

/* Reads what a pointer in the scratch points to, over it. */
#define FOLLOW(scratch, type, field)                                                               \
	({                                                                                         \
		const struct type *from_ = (const void *)*(scratch);                               \
		*(scratch) = 0;                                                                    \
		bpf_core_read((scratch), sizeof(from_->field), &from_->field);                     \
	})

/* Another thread may close the descriptor meanwhile: then the state is wrong, and nothing else. */
static __always_inline enum host_state state_of_descriptor(struct task_struct *task, __u32 number,
							   __u64 *scratch)
{
	struct fdtable *table = task->files ? task->files->fdt : NULL;
	enum host_state state;
	__u64 inode;

	if (!table || number >= table->max_fds)
		return HOST_STATE_other;
	if (bpf_probe_read_kernel(scratch, sizeof(*scratch), table->fd + number))
		return HOST_STATE_other;
	FOLLOW(scratch, file, f_inode);
	inode = *scratch;
	FOLLOW(scratch, inode, i_mode);
	state = state_of_mode(*scratch);
	if (state != HOST_STATE_file)
		return state;
	/* From 6.16 on, what has no file of its own looks like a regular one, too. */
	*scratch = inode;
	FOLLOW(scratch, inode, i_sb);
	FOLLOW(scratch, super_block, s_magic);
	return *scratch == ANON_INODE_FS_MAGIC ? HOST_STATE_other : HOST_STATE_file;
}

/* The current thread's system call; negative: it is in none. */
static __always_inline long system_call(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->orig_ax;
#else
	return ((struct pt_regs___syscall *)regs)->syscallno;
#endif
}

static __always_inline __u64 first_argument(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->di;
#else
	return ((struct pt_regs___syscall *)regs)->orig_x0;
#endif
}

static __always_inline bool is_32_bit_call(struct task_struct *task, long number)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread_info.status & 2 || number & 0x40000000; /* TS_COMPAT; x32 */
#else
	return task->thread_info.flags & (1 << 22); /* TIF_32BIT */
#endif
}

/* Why does the current thread block? */
static __always_inline enum host_state blocked_state(struct task_struct *task, __u64 *scratch)
{
	struct pt_regs *regs;
	long number;
	__u8 class;

	if (task->__state & (TASK_STOPPED | TASK_TRACED))
		return HOST_STATE_stopped;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	number = system_call(regs);
	if (number < 0)
		return HOST_STATE_page_fault;
	if (number >= HOST_CALLS || is_32_bit_call(task, number))
		return HOST_STATE_other;
	class = classes[number & (HOST_CALLS - 1)];
	return class == HOST_BY_DESCRIPTOR
		   ? state_of_descriptor(task, first_argument(regs), scratch)
		   : class;
}

static __always_inline __u32 phase_now(const struct thread *thread)
{
	return thread->open.depth ? CUDA_COOKIE_PHASE(thread->open.call[0].function) : HOST_host;
}

static __always_inline void add_node(struct host_times *times, __u64 ran_ns)
{
	__u32 node = bpf_get_numa_node_id();

	if (node >= HOST_NODES)
		node = HOST_NODES - 1;
	barrier_var(node);
	if (node < HOST_NODES)
		times->node_ns[node] += ran_ns;
}

/* Ends the interval that began when the thread last left a CPU: it was off it, then on it. */
static __always_inline void settle(struct host_account *account, struct task_struct *task,
				   const struct thread *thread)
{
	__u64 ran_ns = task->se.sum_exec_runtime - account->ran_ns;
	__u64 on_ns = account->now_ns - task->sched_info.last_arrival;
	__u32 phase = phase_now(thread);

	/* A kernel up to 6.1 may have left out a run of the hook. */
	if (task->sched_info.pcount - account->arrivals > 1)
		on_ns = ran_ns;
	if (phase < HOST_PHASE_COUNT && on_ns > ran_ns)
		account->times.off_ns[phase][HOST_STATE_stolen] += on_ns - ran_ns;
	on_ns = account->now_ns - account->left_ns - on_ns;
	add_off(account, task, (__s64)on_ns < 0 ? 0 : on_ns);
	add_node(&account->times, task->se.sum_exec_runtime - account->ran_ns);
	account->times.settled += 1;
}

/* An account from before the hook: what happened since then is not known. */
static __always_inline void begin_again(struct host_account *account, struct thread *thread)
{
	bpf_probe_read_kernel(&account->times, sizeof(account->times), &no_times);
	__builtin_memset(&thread->in_calls, 0, sizeof(thread->in_calls));
	account->since_ns = thread->in_calls.since_ns = bpf_ktime_get_ns();
	account->left_ns = 0;
	account->in_gap = account->gap.number = NO_GAP;
	account->gap_states[0].number = account->gap_states[1].number = NO_GAP;
}

static __always_inline void note_departure(struct host_account *account, struct task_struct *task,
					   const struct thread *thread, bool is_ready)
{
	account->left_ns = account->now_ns;
	account->run_delay_ns = task->sched_info.run_delay;
	account->ran_ns = task->se.sum_exec_runtime;
	account->arrivals = task->sched_info.pcount;
	account->throttled_ns = throttled_ns(task);
	account->phase = phase_now(thread);
	account->in_gap = account->phase == HOST_host ? account->gap.number : NO_GAP;
	account->times.opened += 1;
	if (is_ready)
		account->state = is_throttled(task) ? HOST_STATE_throttled : HOST_STATE_runnable;
	else
		account->state = blocked_state(task, &account->scratch);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(htime_switch, bool preempt, struct task_struct *task, struct task_struct *next)
{
	struct host_account *account;
	struct thread *thread;

	if (!task->bpf_storage)
		return 0;
	account = bpf_task_storage_get(&cuda_times, task, NULL, 0);
	if (!account)
		return 0;
	thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);
	if (!thread)
		return 0;
	change_sequence(account);
	account->now_ns = task->se.cfs_rq->rq->clock;
	if (account->since_ns < attached_ns)
		begin_again(account, thread);
	if (account->left_ns)
		settle(account, task, thread);
	note_departure(account, task, thread, preempt || !task->__state);
	change_sequence(account);
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct host_reading);
} htime_scratch SEC(".maps");

/* What the scheduler knows of the thread's last times on and off the CPU. */
static __always_inline void read_schedule(struct host_reading *reading, struct task_struct *task)
{
	reading->arrivals = *(volatile unsigned long *)&task->sched_info.pcount;
	barrier();
	reading->run_delay_ns = task->sched_info.run_delay;
	reading->arrived_ns = task->sched_info.last_arrival;
	reading->queued_ns = task->sched_info.last_queued;
	barrier();
}

#define READ_TRIES 8

/* Copies an account while nobody changes it. */
static __always_inline bool read_account(struct host_reading *reading,
					 const struct host_account *account,
					 struct task_struct *task)
{
	for (int i = 0; i < READ_TRIES; i++) {
		__u64 sequence = *(volatile __u64 *)&account->sequence;

		barrier();
		if (sequence & 1)
			continue;
		bpf_probe_read_kernel(&reading->account, sizeof(*account), account);
		read_schedule(reading, task);
		if (*(volatile __u64 *)&account->sequence == sequence &&
		    *(volatile unsigned long *)&task->sched_info.pcount == reading->arrivals)
			return true;
	}
	return false;
}

/* The clock of the run queues, as late as the reader's own has it. */
static __always_inline __u64 queue_clock(void)
{
	return bpf_get_current_task_btf()->se.cfs_rq->rq->clock;
}

/* The time off the CPU that is not in the account yet. Of a thread that is on a CPU, it is over. */
static __always_inline __u64 open_off(struct host_reading *reading, bool *is_off)
{
	const struct host_account *account = &reading->account;
	__u64 until_ns = reading->arrived_ns;
	__u64 ready_ns = reading->run_delay_ns - account->run_delay_ns;

	*is_off = reading->arrived_ns < account->left_ns;
	if (*is_off) {
		until_ns = queue_clock();
		if (reading->queued_ns && until_ns > reading->queued_ns)
			ready_ns += until_ns - reading->queued_ns;
	}
	reading->ready_ns = ready_ns;
	return until_ns > account->left_ns ? until_ns - account->left_ns : 0;
}

static __always_inline void add_open_off(struct host_thread_record *record,
					 struct host_reading *reading)
{
	const struct host_account *account = &reading->account;
	__u32 phase = account->phase;
	__u32 state = account->state;
	bool is_off;
	__u64 off_ns;

	barrier_var(phase);
	barrier_var(state);
	if (!account->left_ns || phase >= HOST_PHASE_COUNT || state >= HOST_STATE_COUNT)
		return;
	off_ns = open_off(reading, &is_off);
	if (reading->ready_ns > off_ns)
		reading->ready_ns = off_ns;
	if (is_off) {
		record->open_ns = off_ns;
		record->state = reading->queued_ns && state != HOST_STATE_throttled
				    ? HOST_STATE_runnable
				    : state;
	}
	record->times.off_ns[phase][state] += off_ns - reading->ready_ns;
	record->times.off_ns[phase][state == HOST_STATE_throttled ? HOST_STATE_throttled
								  : HOST_STATE_runnable] +=
	    reading->ready_ns;
}

/* After the calls that have ended: one that ends meanwhile is missing, and is not there twice. */
static __always_inline void add_calls(struct host_thread_record *record,
				      const struct thread *thread, __u64 now_ns)
{
	const struct call *call = &thread->open.call[0];
	__u64 began_ns;
	__u32 phase;

	bpf_probe_read_kernel(record->times.call_ns, sizeof(record->times.call_ns),
			      thread->in_calls.ns);
	barrier();
	began_ns = *(volatile __u64 *)&call->started_ns;
	phase = CUDA_COOKIE_PHASE(call->function);
	barrier();
	if (!*(volatile __u64 *)&thread->open.depth || !began_ns ||
	    *(volatile __u64 *)&call->started_ns != began_ns || phase >= HOST_PHASE_COUNT)
		return;
	if (began_ns < record->since_ns)
		began_ns = record->since_ns;
	record->phase = phase;
	if (now_ns > began_ns)
		record->times.call_ns[phase] += now_ns - began_ns;
}

static __always_inline void fill_thread(struct host_thread_record *record,
					struct host_reading *reading, struct task_struct *task,
					const struct thread *thread)
{
	__u64 now_ns = bpf_ktime_get_ns();

	record->process = reading->account.process;
	record->since_ns = reading->account.since_ns;
	record->open_ns = 0;
	record->tid = task->pid;
	record->cpu = task->se.cfs_rq->rq->cpu;
	record->state = HOST_STATE_running;
	record->phase = HOST_host;
	record->reserved = 0;
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), task->comm);
	bpf_probe_read_kernel(&record->times, sizeof(record->times), &reading->account.times);
	record->times.wall_ns = now_ns > record->since_ns ? now_ns - record->since_ns : 0;
	add_calls(record, thread, now_ns);
	add_open_off(record, reading);
}

SEC("iter/task")
int htime_threads(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct host_account *account;
	struct host_reading *reading;
	struct thread *thread;
	__u32 zero = 0;

	if (!task || !task->bpf_storage)
		return 0;
	account = bpf_task_storage_get(&cuda_times, task, NULL, 0);
	thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);
	reading = bpf_map_lookup_elem(&htime_scratch, &zero);
	if (!account || !thread || !reading || account->since_ns < attached_ns ||
	    !read_account(reading, account, task))
		return 0;
	fill_thread(&reading->record, reading, task, thread);
	bpf_seq_write(context->meta->seq, &reading->record, sizeof(reading->record));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
