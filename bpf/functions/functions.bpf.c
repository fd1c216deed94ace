// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The `functions` probe: one record per call of a function that the configuration names, sent when
 * the call ends. C functions have a return probe. Others (C++: an exception that passes a return
 * probe aborts the program) have probes on the instructions that leave them instead. */
#define PROBE func

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/functions/records.bpf.h"
#include "bpf/lib/deaths.bpf.h"
#include "bpf/lib/thread_ends.bpf.h"

/* By number: functions whose calls do not count any more. Their probes stay for other functions of
 * the same link, or until they are detached, and still cost something. */
__u8 muted[FUNC_MUTABLE];
bool any_muted;

static __always_inline bool is_muted(__u64 cookie)
{
	__u32 number = FUNC_NUMBER(cookie);

	barrier_var(number);
	return number < FUNC_MUTABLE && muted[number];
}

static __always_inline void pay(struct thread *thread, __u64 cookie, __u32 ns)
{
	if (!thread || !thread->since_ns)
		return;
	if (any_muted && is_muted(cookie))
		add_muted_cost(thread, ns);
	else
		add_func_cost(thread, ns);
}

/* A jump to a function's first instruction from inside it. */
static __always_inline bool is_same_call(const struct call_stack *stack, struct pt_regs *regs,
					 __u64 cookie)
{
	__u64 top = stack->depth - 1;

	/* Else the depth is compared, which tells the verifier of Linux 6.1 less. */
	barrier_var(top);
	return cookie & FUNC_JUMPS_TO_ENTRY && top < CALL_DEPTH &&
	       stack->call[top].sp == CALL_SP(regs) && stack->call[top].function == cookie;
}

static __always_inline long func_enter(struct pt_regs *regs, struct task_struct *task, __u64 cookie)
{
	struct thread *thread;
	struct call *call;
	__u64 dead;

	if (any_muted && is_muted(cookie & ~CALL_STEPPED)) {
		thread = bpf_task_storage_get(&func_threads, task, NULL, 0);
		if (thread && thread->since_ns)
			add_muted_cost(thread, cost_of_entry(cookie));
		return 1;
	}
	if (traced_pid_count && !is_traced_process(bpf_get_current_pid_tgid() >> 32))
		return 1;
	thread = bpf_task_storage_get(&func_threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_no_state], 1);
		return 1;
	}
	thread->cookie = cookie;
	if (!thread->since_ns)
		enter_process(thread);
	if (thread->since_ns)
		add_func_cost(thread, cost_of_entry(thread->cookie));
	if (thread->open.depth) {
		if (is_same_call(&thread->open, regs, thread->cookie & ~CALL_STEPPED))
			return 1;
		dead = call_drop_dead(bpf_get_current_task_btf(), &thread->open, regs);
		if (dead)
			ACCOUNT(stale, dead);
	}
	ACCOUNT(entered, 1);
	if (!thread->since_ns)
		return 1;
	add_func_cost(thread, costs.record);
	cookie = thread->cookie & ~CALL_STEPPED;
	if (cookie & FUNC_ENTRY_ONLY) {
		thread->ended_ns = bpf_ktime_get_ns();
		if (within_budget(thread))
			send_call(thread, cookie, thread->ended_ns, 0, FUNC_RECORD_ENTRY);
		else
			ACCOUNT(lost[LOST_throttled], 1);
		return 1;
	}
	call = call_begin(&thread->open, regs, cookie);
	if (!call) {
		ACCOUNT(lost[LOST_too_deep], 1);
		return 1;
	}
	if (cookie & FUNC_MARKED)
		call->sp = FUNC_MARKED_SP(cookie);
	if (cookie & FUNC_SEVENTH)
		call_read_seventh(call, regs);
	else if (cookie & (FUNC_ID_BY_VALUE | FUNC_ID_POINTED))
		read_unique_id(thread, call, regs);
	if (cookie & FUNC_SPLITS && thread->awaited_count)
		send_awaited(thread); /* the parent may be new */
	if (send_entries || cookie & FUNC_SPLITS)
		send_entry(thread, call);
	else
		call_start(call);
	return !!(cookie & FUNC_EXITS);
}

static __always_inline void func_leave(struct pt_regs *regs, struct task_struct *task, __u64 cookie)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct thread *thread;
	struct call *call;
	__u64 dead = 0;

	thread = bpf_task_storage_get(&func_threads, task, NULL, 0);
	pay(thread, cookie, costs.ending);
	call = thread ? call_end(&thread->open, regs, cookie, &dead) : NULL;
	if (!call) {
		if (!is_muted(cookie))
			ACCOUNT(unmatched, 1);
		return;
	}
	if (dead)
		ACCOUNT(stale, dead);
	thread->ended_ns = now_ns;
	finish_call(thread, call, regs, FUNC_RECORD_RETURN);
}

/* What is between two marks is open once in a thread: an earlier one has never come to its end. */
static __always_inline void func_enter_at_mark(struct pt_regs *regs, struct task_struct *task,
					       __u64 cookie)
{
	struct thread *thread;
	__u64 dead = 0;

	thread = bpf_task_storage_get(&func_threads, task, NULL, 0);
	if (thread && call_end_at(&thread->open, FUNC_MARKED_SP(cookie), cookie, &dead))
		ACCOUNT(stale, dead + 1);
	func_enter(regs, task, cookie);
}

/* Runs before an instruction that may leave a function. It leaves if the stack pointer is the same
 * as at the entry. Also at marks: in a session, the program for entries could put a return probe
 * there. */
static __always_inline void func_leave_at_exit(struct pt_regs *regs, struct task_struct *task,
					       __u64 cookie)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct thread *thread;
	struct call *call;
	__u64 dead = 0;

	if (cookie & FUNC_BEGINS) {
		func_enter_at_mark(regs, task, cookie & ~FUNC_BEGINS);
		return;
	}
	thread = bpf_task_storage_get(&func_threads, task, NULL, 0);
	pay(thread, cookie, cookie & FUNC_AT_TAIL_CALL ? costs.entry : costs.stepped_entry);
	call = thread ? call_end_at(&thread->open,
				    cookie & FUNC_MARKED ? FUNC_MARKED_SP(cookie) : CALL_SP(regs),
				    cookie & ~FUNC_AT_TAIL_CALL, &dead)
		      : NULL;
	if (call) {
		if (dead)
			ACCOUNT(stale, dead);
		thread->ended_ns = now_ns;
		finish_call(thread, call, regs,
			    cookie & FUNC_AT_TAIL_CALL ? FUNC_RECORD_TAIL_CALL
						       : FUNC_RECORD_RETURN);
	}
}

CALL_PROGRAMS(func_enter, func_leave)
CALL_EXIT_PROGRAMS(func_leave_at_exit)

/* The records share the ring of slow calls, which has little to do when calls hang. */
static __always_inline void report_unreturned(struct task_struct *task, const struct thread *thread)
{
	struct func_unreturned_record *record;

	for (__u64 i = 0; i < CALL_DEPTH; i++) {
		if (i >= *(volatile __u64 *)&thread->open.depth)
			break;
		record = bpf_ringbuf_reserve(&func_slow, sizeof(*record), 0);
		if (!record) {
			__sync_fetch_and_add(&slow_details_lost, 1);
			break;
		}
		if (!fill_unreturned(&record->unreturned, task, &thread->open.call[i],
				     unreturned_after_ns)) {
			DISCARD(record);
			continue;
		}
		fill_head(&record->head, thread->since_ns, task->tgid, FUNC_RECORD_UNRETURNED);
		SUBMIT(record);
	}
}

FORGET_THREAD(func_threads, func_procs, thread->open.depth, report_unreturned)

static __always_inline void forget_process(__u32 tgid)
{
	__u64 cost_ns = 0;
	const __u64 since_ns = remove_process(&func_procs, &tgid, &cost_ns);
	struct func_exit_record *record;

	if (!since_ns)
		return;
	record = bpf_ringbuf_reserve(&func_lifecycle, sizeof(*record), 0);
	if (!record)
		return; /* the exporter finds by itself that the process is gone */
	fill_head(&record->head, since_ns, tgid, FUNC_RECORD_EXIT);
	record->cost_ns = cost_ns;
	record->run_ns = run_time_of_current();
	SUBMIT(record);
}

END_PROGRAMS(forget_thread, forget_process)
DEATH_PROGRAM(func_threads, is_in_call(task, &thread->open))

char LICENSE[] SEC("license") = "Dual BSD/GPL";
