/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The `functions` probe's processes, and the records of their calls. */
#ifndef GPUSNOOP_FUNC_RECORDS_BPF_H
#define GPUSNOOP_FUNC_RECORDS_BPF_H

#include "bpf/functions_threads.bpf.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/process.bpf.h"
#include "bpf/lib/process_details.bpf.h"
#include "bpf/lib/process_table.bpf.h"
#include "bpf/lib/traced_pids.bpf.h"

/* Calls that one process may record a second; 0: no limit. */
const volatile __u64 max_calls_per_second = 0;

/* For a trace: calls that are faster than their function's slow_ns send nothing. */
const volatile bool only_slow = false;

/* Each call whose end is seen also sends a record when it begins. That record is no event, and is
 * in no account. It has the time from which the call's duration counts: this connects the two
 * records. */
const volatile bool send_entries = false;
__u64 entries_lost = 0;

/* Slow calls have their own ring, as their records are long. If it is full and the ring of calls is
 * not, they are sent as other calls are, and counted here. */
__u64 slow_details_lost = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} func_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} func_slow SEC(".maps");

/* Starts and ends of processes. A short process whose start finds no room has no name on the page,
 * so calls do not share this ring. Room for 800 of both, which the exporter reads every 10 ms. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} func_lifecycle SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FUNC_MAX_FUNCTIONS);
	__type(key, __u32);
	__type(value, struct func_options);
} func_options SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* allocated at once: before 6.1 the kernel warns otherwise */
	__type(key, __u32);
	__type(value, struct func_process);
} func_procs SEC(".maps");

static __always_inline void fill_head(struct func_record *head, __u64 since_ns, __u32 tgid,
				      enum func_record_type type)
{
	head->ended_ns = bpf_ktime_get_ns();
	head->since_ns = since_ns;
	head->tgid = tgid;
	head->type = type;
}

/* Enters the thread's process at its first call and notes its since_ns; 0 stays: no room. */
static __always_inline void enter_process(struct thread *thread)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct func_process_record *record;

	thread->tgid = task->tgid;
	thread->tid = task->pid;
	thread->fresh.entry.start_boottime_ns = task->group_leader->start_boottime;
	if (find_process(&func_procs, &thread->tgid, &thread->fresh.entry, &thread->since_ns))
		return;
	record = bpf_ringbuf_reserve(&func_lifecycle, sizeof(*record), 0);
	if (add_process(&func_procs, &thread->tgid, &thread->fresh.entry, &thread->since_ns)) {
		if (record) {
			fill_head(&record->head, thread->since_ns, thread->tgid,
				  FUNC_RECORD_PROCESS);
			fill_identity(&record->identity, task);
			fill_details(&record->details);
			SUBMIT(record);
		}
	} else if (record) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
	}
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
	process = bpf_map_lookup_elem(&func_procs, &thread->tgid);
	return !process ||
	       take_lease(&process->budget, &thread->lease, thread->ended_ns, max_calls_per_second);
}

static __always_inline void fill_call(struct func_call_record *record, const struct thread *thread,
				      __u64 cookie, __u64 started_ns, __u64 result,
				      enum func_record_type type)
{
	record->head.ended_ns = thread->ended_ns;
	record->head.since_ns = thread->since_ns;
	record->head.tgid = thread->tgid;
	record->head.type = type;
	record->duration_ns = thread->ended_ns - started_ns;
	record->result = result;
	record->function = FUNC_NUMBER(cookie);
	record->tid = thread->tid;
}

static __always_inline void send_call(struct thread *thread, __u64 cookie, __u64 started_ns,
				      __u64 result, enum func_record_type type)
{
	struct func_call_record *record;

	record = bpf_ringbuf_reserve(&func_events, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(record, thread, cookie, started_ns, result, type);
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void fill_arguments(struct func_arguments_record *record,
					   const struct call *call)
{
	for (int i = 0; i < FUNC_ARGUMENTS - 1; i++)
		record->argument[i] = call->argument[i + 1];
	record->argument[6] = call->function & FUNC_SEVENTH ? call->argument[7] : 0;
	record->pointed = 0;
	record->has_pointed = !bpf_probe_read_user(&record->pointed, sizeof(record->pointed),
						   (const void *)call->argument[1]);
}

static __always_inline void send_entry(struct thread *thread, struct call *call)
{
	struct func_arguments_record *record;

	record = bpf_ringbuf_reserve(&func_events, sizeof(*record), 0);
	call_start(call);
	if (!record) {
		__sync_fetch_and_add(&entries_lost, 1);
		return;
	}
	thread->ended_ns = call->started_ns;
	fill_call(&record->call, thread, call->function, call->started_ns, 0, FUNC_RECORD_BEGIN);
	fill_arguments(record, call);
	SUBMIT(record);
}

static __always_inline void send_arguments(struct thread *thread, const struct call *call,
					   __u64 result, enum func_record_type type)
{
	struct func_arguments_record *record;

	record = bpf_ringbuf_reserve(&func_events, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(&record->call, thread, call->function, call->started_ns, result, type);
	fill_arguments(record, call);
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* The function's own frame is gone at its end, and the kernel finds its caller only at a return
 * probe. Before an instruction that leaves the function, the return address is still where the call
 * put it. */
static __always_inline void fill_stack(struct func_slow_record *record, const struct call *call,
				       struct pt_regs *regs)
{
	long bytes = bpf_get_stack(regs, record->frames, sizeof(record->frames), BPF_F_USER_STACK);

	record->frame_count = bytes > 0 ? bytes / sizeof(record->frames[0]) : 1;
	if (call->function & FUNC_EXITS)
		record->frames[0] = call_caller(regs);
	else if (bytes <= 0)
		record->frames[0] = PT_REGS_IP(regs);
}

/* False: there is no room. */
static __always_inline bool send_slow(struct thread *thread, const struct call *call,
				      struct pt_regs *regs, enum func_record_type type)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct func_slow_record *record;

	record = bpf_ringbuf_reserve(&func_slow, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&slow_details_lost, 1);
		return false;
	}
	fill_call(&record->arguments.call, thread, call->function, call->started_ns,
		  PT_REGS_RC(regs), type);
	fill_arguments(&record->arguments, call);
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	record->code_start = task->mm ? task->mm->start_code : 0;
	record->trampoline = return_trampoline(task);
	fill_stack(record, call, regs);
	SUBMIT(record);
	ACCOUNT(events, 1);
	return true;
}

/* A call ended at thread->ended_ns. */
static __always_inline void finish_call(struct thread *thread, const struct call *call,
					struct pt_regs *regs, enum func_record_type type)
{
	const struct func_options *options;

	if (!within_budget(thread)) {
		ACCOUNT(lost[LOST_throttled], 1);
		return;
	}
	thread->function = FUNC_NUMBER(call->function);
	options = bpf_map_lookup_elem(&func_options, &thread->function);
	if (options && options->slow_ns) {
		if (thread->ended_ns - call->started_ns < options->slow_ns) {
			if (only_slow)
				return;
		} else if (send_slow(thread, call, regs, type)) {
			return;
		}
	}
	if (options && options->flags & FUNC_SENDS_ARGUMENTS)
		send_arguments(thread, call, PT_REGS_RC(regs), type);
	else
		send_call(thread, call->function, call->started_ns, PT_REGS_RC(regs), type);
}

#endif
