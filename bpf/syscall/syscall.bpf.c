// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Counts the system calls of targets in the kernel: a record for each would cost more than most of
 * the calls, and only a trace gets one. A call counts when it returns. */
#define PROBE syscall

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/guard.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/target.bpf.h"
#include "bpf/lib/traced.bpf.h"
#include "bpf/syscall/records.bpf.h"
#include "bpf/syscall/syscall.h"

/* A bit for each number that is wanted. */
const volatile __u64 wanted[16] = {};
const volatile __u32 shard_mask = 0;
const volatile __u32 rt_sigreturn = SYSCALL_COUNT;

ON_DEMAND_MAP(syscall_counts, 32768, struct syscall_key, struct syscall_counts);

ON_DEMAND_MAP(syscall_errors, 16384, struct syscall_error_key, __u64);

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
