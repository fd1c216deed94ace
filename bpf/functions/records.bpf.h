/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The `functions` probe's processes, and the records of their calls. */
#ifndef GPUSNOOP_FUNC_RECORDS_BPF_H
#define GPUSNOOP_FUNC_RECORDS_BPF_H

#include "bpf/functions/maps.bpf.h"
#include "bpf/functions/nccl.bpf.h"

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
			FILL_PART(record, details, fill_details);
			SUBMIT(record);
		}
	} else if (record) {
		DISCARD(record);
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
					   const struct call *call, __u32 pointer)
{
	const void *at = (const void *)call->argument[pointer & (CALL_SLOTS - 1)];

	for (int i = 0; i < FUNC_ARGUMENTS - 1; i++)
		record->argument[i] = call->argument[i + 1];
	record->argument[6] = call->function & FUNC_HAS_SEVENTH ? call->argument[7] : 0;
	record->pointed = 0;
	/* An int can be the last thing on its page. */
	record->has_pointed = !bpf_probe_read_user(&record->pointed, sizeof(record->pointed), at) ||
			      !bpf_probe_read_user(&record->pointed, sizeof(__u32), at);
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
	fill_arguments(record, call, 0);
	SUBMIT(record);
}

static __always_inline void send_arguments(struct thread *thread, const struct call *call,
					   __u32 pointer, __u64 result, enum func_record_type type)
{
	struct func_arguments_record *record;

	record = bpf_ringbuf_reserve(&func_events, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(&record->call, thread, call->function, call->started_ns, result, type);
	fill_arguments(record, call, pointer);
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
	if ((call->function & (FUNC_EXITS | FUNC_MARKED)) == FUNC_EXITS)
		record->frames[0] = call_caller(regs);
	else if (bytes <= 0)
		record->frames[0] = PT_REGS_IP(regs);
}

/* False: there is no room. */
static __always_inline bool send_slow(struct thread *thread, const struct call *call, __u32 pointer,
				      struct pt_regs *regs, enum func_record_type type)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct func_slow_record *record;

	record = bpf_ringbuf_reserve(&func_slow, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&slow_details_lost, 1);
		return false;
	}
	add_func_cost(thread, costs.stack);
	fill_call(&record->arguments.call, thread, call->function, call->started_ns,
		  PT_REGS_RC(regs), type);
	fill_arguments(&record->arguments, call, pointer);
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
	*(volatile __u32 *)&thread->type = type; /* not on the stack, which is small */
	options = bpf_map_lookup_elem(&func_options, &thread->function);
	if (options && options->flags & FUNC_SENDS_ARGUMENTS) {
		*(volatile __u32 *)&thread->flags = options->flags;
		*(volatile __u32 *)&thread->position = options->pointer;
		if (thread->awaited_count)
			send_awaited(thread);
		if (*(volatile __u32 *)&thread->flags & FUNC_MAKES_HANDLES) {
			thread->word = PT_REGS_RC(regs);
			look_at_handles(thread, call);
		}
		options = bpf_map_lookup_elem(&func_options, &thread->function);
	}
	if (options && options->slow_ns) {
		if (thread->ended_ns - call->started_ns < options->slow_ns) {
			if (only_slow)
				return;
		} else if (send_slow(thread, call, options->pointer, regs,
				     *(volatile __u32 *)&thread->type)) {
			return;
		}
	}
	if (options && options->flags & FUNC_SENDS_ARGUMENTS)
		send_arguments(thread, call, options->pointer, PT_REGS_RC(regs),
			       *(volatile __u32 *)&thread->type);
	else
		send_call(thread, call->function, call->started_ns, PT_REGS_RC(regs),
			  *(volatile __u32 *)&thread->type);
}

#endif
