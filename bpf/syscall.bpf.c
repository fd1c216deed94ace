// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Counts the system calls of targets in the kernel: a record for each would cost more than most of
 * the calls, and only a trace gets one. A call counts when it returns. */
#define PROBE syscall

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/guard.bpf.h"
#include "bpf/lib/processes/target.bpf.h"
#include "bpf/lib/traced.bpf.h"
#include "bpf/syscall.h"

/* A bit for each number that is wanted. */
const volatile __u64 wanted[16] = {};
const volatile __u32 shard_mask = 0;
const volatile __u32 rt_sigreturn = SYSCALL_COUNT;

/* The process of `gpusnoop_exporter trace`, which gets a record for each call but its own. 0 in the
 * exporter: the verifier removes all of this as dead code. */
const volatile int tracer_tgid = 0;
/* Whether all calls that are wanted open files, and its records have their paths. The path is the
 * first argument of these two calls, and the second of all others. */
const volatile bool with_paths = false;
const volatile __u32 path_first[2] = {SYSCALL_COUNT, SYSCALL_COUNT};

/* No call of a target is in between. */
#define IDLE	0
#define OPEN	1
#define IGNORED 2 /* one that is not wanted */
#define EXECED	3 /* execve() has succeeded: the call that returns now is another program's */

struct thread {
	struct traced_thread traced;
	__u64 started_ns;
	__u32 state;
	struct syscall_key key;
	struct syscall_error_key error;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} syscall_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct syscall_key);
	__type(value, struct syscall_counts);
} syscall_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct syscall_error_key);
	__type(value, __u64);
} syscall_errors SEC(".maps");

static const struct syscall_counts no_counts;
static const __u64 no_errors;
static const __u64 bounds[] = SYSCALL_BOUNDS;

/* Was the call made through an interface with other numbers, such as the 32-bit one? */
static __always_inline bool is_compat(struct task_struct *task, long number)
{
#if defined(__TARGET_ARCH_x86)
	/* TS_COMPAT: by int 0x80 or by a 32-bit program; bit 30: x32. */
	return task->thread_info.status & 2 || number & 0x40000000;
#else
	return task->thread_info.flags & (1 << 22); /* TIF_32BIT */
#endif
}

static __always_inline __u16 number_of(struct task_struct *task, long number)
{
	if (is_compat(task, number))
		return SYSCALL_COMPAT;
	return number >= 0 && number < SYSCALL_NUMBERS ? number : SYSCALL_UNKNOWN;
}

/* Most threads have no storage of any BPF program: this check is faster than a lookup of ours. */
static __always_inline bool has_storage(struct task_struct *task)
{
	return task->bpf_storage;
}

static __always_inline struct thread *known_thread(struct task_struct *task)
{
	return has_storage(task) ? bpf_task_storage_get(&syscall_threads, task, NULL, 0) : NULL;
}

static __always_inline void on_enter(struct task_struct *task, long id)
{
	struct thread *thread;
	__u16 number;

	thread = known_thread(task);
	if (!thread && !target_since(task))
		return;
	if (tracer_tgid && task->tgid == tracer_tgid)
		return;
	number = number_of(task, id);
	if (!thread)
		thread = bpf_task_storage_get(&syscall_threads, task, NULL,
					      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!(wanted[(number >> 6) & 15] >> (number & 63) & 1)) {
		if (thread) {
			if (thread->state == OPEN)
				ACCOUNT(stale, 1);
			thread->state = IGNORED;
		}
		return;
	}
	if (thread && thread->state == OPEN)
		ACCOUNT(stale, 1); /* its return went by: see below */
	ACCOUNT(entered, 1);
	if (!thread) {
		ACCOUNT(lost[LOST_no_state], 1);
		return;
	}
	if (!thread->traced.since_ns && !enter_traced(&thread->traced, task)) {
		thread->state = IGNORED;
		return;
	}
	thread->key.number = number;
	thread->state = OPEN;
	thread->started_ns = bpf_ktime_get_ns();
}

/* If a return is skipped nevertheless, its call is stale. */
SEC("tp_btf/sys_enter")
int BPF_PROG(syscall_enter, struct pt_regs *regs, long id)
{
	tracepoint_guard_begin();
	on_enter(bpf_get_current_task_btf(), id);
	tracepoint_guard_end();
	return 0;
}

static __always_inline __u32 bucket_of(__u64 nanoseconds)
{
	__u32 bucket = 0;

	/* A binary search in the bounds. */
	bucket += nanoseconds > bounds[7] ? 8 : 0;
	bucket += nanoseconds > bounds[(bucket + 3) & 15] ? 4 : 0;
	bucket += nanoseconds > bounds[(bucket + 1) & 15] ? 2 : 0;
	bucket += nanoseconds > bounds[bucket & 15] ? 1 : 0;
	return bucket & (SYSCALL_BUCKETS - 1);
}

static __always_inline bool count_error(struct thread *thread, __u16 error)
{
	__u64 *count;

	thread->error.since_ns = thread->traced.since_ns;
	thread->error.tgid = thread->traced.tgid;
	thread->error.number = thread->key.number;
	thread->error.error = error;
	count = bpf_map_lookup_elem(&syscall_errors, &thread->error);
	if (!count) {
		/* Another thread may be first. */
		bpf_map_update_elem(&syscall_errors, &thread->error, &no_errors, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&syscall_errors, &thread->error);
	}
	if (!count)
		return false;
	__sync_fetch_and_add(count, 1);
	return true;
}

static __always_inline struct syscall_counts *counts_of(struct thread *thread)
{
	struct syscall_counts *found;

	thread->key.since_ns = thread->traced.since_ns;
	thread->key.tgid = thread->traced.tgid;
	thread->key.shard = bpf_get_smp_processor_id() & shard_mask;
	found = bpf_map_lookup_elem(&syscall_counts, &thread->key);
	if (found)
		return found;
	bpf_map_update_elem(&syscall_counts, &thread->key, &no_counts, BPF_NOEXIST);
	return bpf_map_lookup_elem(&syscall_counts, &thread->key);
}

static __always_inline void finish(struct thread *thread, __u64 nanoseconds, long result)
{
	struct syscall_counts *found = counts_of(thread);

	/* The "result" of rt_sigreturn is a register of the code that the signal interrupted. */
	if (!found || (result < 0 && result >= -4095 && thread->key.number != rt_sigreturn &&
		       !count_error(thread, -result))) {
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	__sync_fetch_and_add(&found->nanoseconds, nanoseconds);
	__sync_fetch_and_add(&found->calls[bucket_of(nanoseconds)], 1);
	ACCOUNT(events, 1);
}

/* Until a call returns, the kernel keeps its registers, except the one of the result. A kprobe has
 * only the address of them. */
static __always_inline void fill_arguments(struct syscall_record *record, struct task_struct *task,
					   struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	bool is_32_bit = task->thread_info.status & 2; /* TS_COMPAT */

	record->made_with = BPF_CORE_READ(regs, orig_ax);
	record->arguments[0] = is_32_bit ? BPF_CORE_READ(regs, bx) : BPF_CORE_READ(regs, di);
	record->arguments[1] = is_32_bit ? BPF_CORE_READ(regs, cx) : BPF_CORE_READ(regs, si);
	record->arguments[2] = BPF_CORE_READ(regs, dx);
	record->arguments[3] = is_32_bit ? BPF_CORE_READ(regs, si) : BPF_CORE_READ(regs, r10);
	record->arguments[4] = is_32_bit ? BPF_CORE_READ(regs, di) : BPF_CORE_READ(regs, r8);
	record->arguments[5] = is_32_bit ? BPF_CORE_READ(regs, bp) : BPF_CORE_READ(regs, r9);
#else
	struct pt_regs___syscall *call = (void *)regs;

	record->made_with = BPF_CORE_READ(call, syscallno);
	record->arguments[0] = BPF_CORE_READ(call, orig_x0);
	record->arguments[1] = BPF_CORE_READ(regs, user_regs.regs[1]);
	record->arguments[2] = BPF_CORE_READ(regs, user_regs.regs[2]);
	record->arguments[3] = BPF_CORE_READ(regs, user_regs.regs[3]);
	record->arguments[4] = BPF_CORE_READ(regs, user_regs.regs[4]);
	record->arguments[5] = BPF_CORE_READ(regs, user_regs.regs[5]);
#endif
}

static __always_inline void fill_call(struct syscall_record *record, struct thread *thread,
				      struct task_struct *task, struct pt_regs *regs, long result)
{
	fill_traced(&record->head, thread->traced.since_ns, thread->traced.tgid, SYSCALL_RECORD);
	record->nanoseconds = record->head.at_ns - thread->started_ns;
	record->result = result;
	record->tid = thread->traced.tid;
	record->number = thread->key.number;
	record->reserved = 0;
	fill_arguments(record, task, regs);
}

static __always_inline void send_call(struct thread *thread, struct task_struct *task,
				      struct pt_regs *regs, long result)
{
	struct syscall_record *record = bpf_ringbuf_reserve(&syscall_events, sizeof(*record), 0);

	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(record, thread, task, regs, result);
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* The kernel has just read the path, so its memory is there, unless the address was wrong. */
static __always_inline void send_open(struct thread *thread, struct task_struct *task,
				      struct pt_regs *regs, long result)
{
	struct syscall_open_record *record =
	    bpf_ringbuf_reserve(&syscall_events, sizeof(*record), 0);
	__u32 number = thread->key.number;
	__u64 path;

	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(&record->call, thread, task, regs, result);
	path = number == path_first[0] || number == path_first[1] ? record->call.arguments[0]
								  : record->call.arguments[1];
	if (bpf_probe_read_user_str(record->path, sizeof(record->path), (void *)path) < 0)
		record->path[0] = 0;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void on_leave(struct task_struct *task, struct pt_regs *regs, long result)
{
	struct thread *thread = bpf_task_storage_get(&syscall_threads, task, NULL, 0);
	__u32 state;

	if (!thread)
		return; /* its process is no target, or was none when it made this call */
	state = thread->state;
	thread->state = IDLE;
	switch (state) {
	case OPEN:
		if (tracer_tgid && with_paths)
			send_open(thread, task, regs, result);
		else if (tracer_tgid)
			send_call(thread, task, regs, result);
		else
			finish(thread, bpf_ktime_get_ns() - thread->started_ns, result);
		break;
	case IDLE:
		ACCOUNT(unmatched, 1);
		break;
	case EXECED:
		/* The process may be no target any more. */
		bpf_task_storage_delete(&syscall_threads, task);
	}
}

SEC("tp_btf/sys_exit")
int BPF_PROG(syscall_leave, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!has_storage(task))
		return 0;
	tracepoint_guard_begin();
	on_leave(task, regs, result);
	tracepoint_guard_end();
	return 0;
}

/* The current thread ends: the kernel does not let it return from a call. */
static __always_inline void end_thread(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&syscall_threads, task, NULL, 0);

	if (!thread)
		return;
	if (thread->state == OPEN)
		ACCOUNT(stale, 1);
	bpf_task_storage_delete(&syscall_threads, task);
}

/* Where the kernel preempts programs at these tracepoints, and skips them for other threads
 * then (tracepoint_guard_begin()): kprobes on functions that call the tracepoints. They run with
 * preemption disabled. The kernel calls these functions only while a program is at a tracepoint. */
SEC("kprobe/" SYSCALL_ENTER_FUNCTION)
int BPF_KPROBE(syscall_k_enter, struct pt_regs *regs, long id)
{
	on_enter(bpf_get_current_task_btf(), id);
	return 0;
}

SEC("kprobe/" SYSCALL_LEAVE_FUNCTION)
int BPF_KPROBE(syscall_k_leave, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (has_storage(task))
		on_leave(task, regs, result);
	return 0;
}

SEC("kprobe/" SYSCALL_EXIT_FUNCTION)
int BPF_KPROBE(syscall_k_exit)
{
	end_thread(bpf_get_current_task_btf());
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(syscall_keep, struct pt_regs *regs, long id)
{
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(syscall_exit, struct task_struct *task)
{
	end_thread(task);
	if (task->signal->live.counter == 0)
		leave_traced(task->tgid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(syscall_exec, struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&syscall_threads, task, NULL, 0);

	if (thread) {
		if (thread->state == OPEN)
			ACCOUNT(stale, 1);
		thread->state = EXECED;
		thread->traced.since_ns = 0;
	}
	leave_traced(task->tgid);
	return 0;
}

/* The exporter reads our tables by these programs, not by system calls: see for_each_entry(). */
static __always_inline int list_entry(struct bpf_iter__bpf_map_elem *context, __u32 key_bytes,
				      __u32 value_bytes)
{
	struct seq_file *seq = context->meta->seq;
	void *value = context->value;
	void *key = context->key;

	if (key && value) {
		bpf_seq_write(seq, key, key_bytes);
		bpf_seq_write(seq, value, value_bytes);
	}
	return 0;
}

SEC("iter/bpf_map_elem")
int syscall_lscount(struct bpf_iter__bpf_map_elem *context)
{
	return list_entry(context, sizeof(struct syscall_key), sizeof(struct syscall_counts));
}

SEC("iter/bpf_map_elem")
int syscall_lserror(struct bpf_iter__bpf_map_elem *context)
{
	return list_entry(context, sizeof(struct syscall_error_key), sizeof(__u64));
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
