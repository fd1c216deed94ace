// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* FuncSnoop: one record per call of a function that the configuration names, sent when the call
 * ends. C functions have a return probe. Others (C++: an exception that passes a return probe
 * aborts the program) have probes on the instructions that leave them instead. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/func.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/process.bpf.h"

/* As many as return probes of one thread that the kernel keeps (MAX_URETPROBE_DEPTH). */
#define CALL_DEPTH		    64
#define CALL_SLOTS		    7
#define CALL_HAS_RETURN_PROBE(call) (!((call)->function & FUNC_EXITS))
#include "bpf/lib/call.bpf.h"

/* Calls that one process may record a second; 0: no limit. */
const volatile __u64 max_calls_per_second = 0;

/* By number: functions that are wanted no more, and whose probes are there for others' sake. */
__u8 muted[FUNC_MUTABLE];
bool any_muted;

static __always_inline bool is_muted(__u64 cookie)
{
	__u32 number = FUNC_NUMBER(cookie);

	OPAQUE(number);
	return number < FUNC_MUTABLE && muted[number];
}

struct func_process {
	__u64 since_ns;
	__u64 start_boottime_ns;
	struct call_budget budget;
};

struct thread {
	struct call_stack open;
	__u64 since_ns; /* the process's; 0: not known yet */
	__u64 lease;	/* calls left */
	__u64 ended_ns; /* of the call that ends now */
	__u32 tgid;
	__u32 tid;
	struct func_process fresh; /* scratch */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* allocated at once: before 6.1 the kernel warns otherwise */
	__type(key, __u32);
	__type(value, struct func_process);
} processes SEC(".maps");

static __always_inline void fill_head(struct func_record *head, __u64 since_ns, __u32 tgid,
				      enum func_record_type type)
{
	head->ended_ns = bpf_ktime_get_ns();
	head->since_ns = since_ns;
	head->tgid = tgid;
	head->type = type;
}

/* Enters the thread's process at its first call and notes its since_ns; 0 stays: no room in the
 * table, and the call is counted as lost. The process's record has its place in the ring before the
 * process is in the table, so whoever finds it there sends its calls behind it. */
static __always_inline void enter_process(struct thread *thread)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct func_process_record *record;
	struct func_process *known;

	thread->tgid = task->tgid;
	thread->tid = task->pid;
	thread->fresh.start_boottime_ns = task->group_leader->start_boottime;
	known = bpf_map_lookup_elem(&processes, &thread->tgid);
	if (known) {
		if (known->start_boottime_ns == thread->fresh.start_boottime_ns) {
			thread->since_ns = known->since_ns;
			return;
		}
		/* One of the same id that we did not see ending: the exporter finds out by itself.
		 */
		bpf_map_delete_elem(&processes, &thread->tgid);
	}
	record = bpf_ringbuf_reserve(&calls, sizeof(*record), 0);
	thread->fresh.since_ns = bpf_ktime_get_ns();
	if (!bpf_map_update_elem(&processes, &thread->tgid, &thread->fresh, BPF_NOEXIST)) {
		thread->since_ns = thread->fresh.since_ns;
		if (record) {
			fill_head(&record->head, thread->since_ns, thread->tgid,
				  FUNC_RECORD_PROCESS);
			fill_identity(&record->identity, task);
			SUBMIT(record);
		}
		return;
	}
	if (record)
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
	/* Another thread of the process was first, or the table is full. */
	known = bpf_map_lookup_elem(&processes, &thread->tgid);
	if (known)
		thread->since_ns = known->since_ns;
	else
		ACCOUNT(lost[LOST_process_table], 1);
}

static __always_inline bool within_budget(struct thread *thread)
{
	struct func_process *process;

	if (!max_calls_per_second)
		return true;
	if (thread->lease) {
		thread->lease--;
		return true;
	}
	process = bpf_map_lookup_elem(&processes, &thread->tgid);
	return !process ||
	       take_lease(&process->budget, &thread->lease, thread->ended_ns, max_calls_per_second);
}

static __always_inline void send_call(struct thread *thread, __u64 cookie, __u64 started_ns,
				      __u64 result, enum func_record_type type)
{
	struct func_call_record *record;

	if (!within_budget(thread)) {
		ACCOUNT(lost[LOST_throttled], 1);
		return;
	}
	record = bpf_ringbuf_reserve(&calls, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	record->head.ended_ns = thread->ended_ns;
	record->head.since_ns = thread->since_ns;
	record->head.tgid = thread->tgid;
	record->head.type = type;
	record->duration_ns = thread->ended_ns - started_ns;
	record->result = result;
	record->function = FUNC_NUMBER(cookie);
	record->tid = thread->tid;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* A jump to a function's first instruction from inside it. */
static __always_inline bool is_same_call(const struct call_stack *stack, struct pt_regs *regs,
					 __u64 cookie)
{
	__u64 top = stack->depth - 1;

	return cookie & FUNC_JUMPS_TO_ENTRY && top < CALL_DEPTH &&
	       stack->call[top].sp == CALL_SP(regs) && stack->call[top].function == cookie;
}

static __always_inline long func_enter(struct pt_regs *regs)
{
	struct thread *thread;
	struct call *call;
	__u64 cookie, dead;

	if (any_muted && is_muted(bpf_get_attach_cookie(regs)))
		return 1;
	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_no_state], 1);
		return 1;
	}
	if (thread->open.depth) {
		if (is_same_call(&thread->open, regs, bpf_get_attach_cookie(regs)))
			return 1;
		dead = call_drop_dead(bpf_get_current_task_btf(), &thread->open, regs);
		if (dead)
			ACCOUNT(stale, dead);
	}
	ACCOUNT(entered, 1);
	if (!thread->since_ns) {
		enter_process(thread);
		if (!thread->since_ns)
			return 1;
	}
	cookie = bpf_get_attach_cookie(regs);
	if (cookie & FUNC_ENTRY_ONLY) {
		thread->ended_ns = bpf_ktime_get_ns();
		send_call(thread, cookie, thread->ended_ns, 0, FUNC_RECORD_ENTRY);
		return 1;
	}
	call = call_begin(&thread->open, regs, cookie);
	if (!call) {
		ACCOUNT(lost[LOST_too_deep], 1);
		return 1;
	}
	call_start(call);
	return !!(cookie & FUNC_EXITS);
}

static __always_inline void func_leave(struct pt_regs *regs, __u64 cookie)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct thread *thread;
	struct call *call;
	__u64 dead = 0;

	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0);
	call = thread ? call_end(&thread->open, regs, cookie, &dead) : NULL;
	if (!call) {
		if (!is_muted(cookie))
			ACCOUNT(unmatched, 1);
		return;
	}
	if (dead)
		ACCOUNT(stale, dead);
	thread->ended_ns = now_ns;
	send_call(thread, cookie, call->started_ns, PT_REGS_RC(regs), FUNC_RECORD_RETURN);
}

/* Before an instruction that may leave a function: it does if the stack pointer is what it was at
 * the entry. */
static __always_inline int func_exit(struct pt_regs *regs)
{
	__u64 now_ns = bpf_ktime_get_ns();
	__u64 cookie = bpf_get_attach_cookie(regs);
	struct thread *thread;
	struct call *call;
	__u64 dead = 0;

	guard_begin();
	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0);
	call = thread
		   ? call_end_at(&thread->open, CALL_SP(regs), cookie & ~FUNC_AT_TAIL_CALL, &dead)
		   : NULL;
	if (call) {
		if (dead)
			ACCOUNT(stale, dead);
		thread->ended_ns = now_ns;
		send_call(thread, cookie, call->started_ns, PT_REGS_RC(regs),
			  cookie & FUNC_AT_TAIL_CALL ? FUNC_RECORD_TAIL_CALL : FUNC_RECORD_RETURN);
	}
	guard_end();
	return 0;
}

CALL_PROGRAMS(func_enter, func_leave)

SEC("uprobe.multi")
int multi_exit(struct pt_regs *regs)
{
	return func_exit(regs);
}

SEC("uprobe")
int perf_exit(struct pt_regs *regs)
{
	return func_exit(regs);
}

/* The calls that the thread will not return from any more. */
static __always_inline void forget_thread(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);

	if (!thread)
		return;
	if (thread->open.depth)
		ACCOUNT(stale, thread->open.depth);
	bpf_task_storage_delete(&threads, task);
}

static __always_inline void forget_process(__u32 tgid)
{
	struct func_process *process = bpf_map_lookup_elem(&processes, &tgid);
	struct func_exit_record *record;
	__u64 since_ns;

	if (!process)
		return;
	since_ns = process->since_ns;
	/* Two last threads can both see no other one alive: only one deletes. */
	if (bpf_map_delete_elem(&processes, &tgid))
		return;
	record = bpf_ringbuf_reserve(&calls, sizeof(*record), 0);
	if (!record)
		return; /* the exporter finds by itself that the process is gone */
	fill_head(&record->head, since_ns, tgid, FUNC_RECORD_EXIT);
	SUBMIT(record);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_exit, struct task_struct *task)
{
	forget_thread(task);
	if (task->signal->live.counter == 0)
		forget_process(task->tgid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	forget_thread(task);
	forget_process(task->tgid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
