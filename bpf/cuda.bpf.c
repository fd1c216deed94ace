// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* CUDA runtime calls: one record per outermost call, sent when it returns. Allocations, frees and
 * what happens to processes go through a ring of their own, so that a flood of launches cannot
 * crowd them out. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/cuda_process.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} calls SEC(".maps");

static __always_inline long cuda_enter(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;
	__u64 dead;

	thread = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_no_state], 1);
		return 1;
	}
	if (thread->open.depth) {
		dead = call_drop_dead(task, &thread->open, regs);
		if (dead)
			ACCOUNT(stale, dead);
		if (thread->open.depth) {
			ACCOUNT(nested, 1);
			return 1;
		}
	}
	ACCOUNT(entered, 1);
	if (!thread->since_ns) {
		enter_process(thread);
		if (!thread->since_ns)
			return 1;
	}
	call_begin(&thread->open, regs);
	return 0;
}

static __always_inline void fill_call(struct cuda_record *head, const struct thread *thread,
				      const struct call *call, __u32 tgid, __u64 now_ns,
				      enum cuda_record_type type, int result)
{
	head->ended_ns = now_ns;
	head->duration_ns = now_ns - call->started_ns;
	head->since_ns = thread->since_ns;
	head->tgid = tgid;
	head->type = type;
	head->function = CUDA_COOKIE_FUNCTION(call->function);
	head->result = result;
	head->reserved = 0;
}

/* Both allocations and kernel handles: the call wrote a word to where its first argument points. */
static __always_inline void send_written_word(const struct thread *thread, const struct call *call,
					      __u32 tgid, __u64 now_ns, enum cuda_record_type type,
					      int result)
{
	struct cuda_allocation_record *record;

	_Static_assert(sizeof(struct cuda_allocation_record) == sizeof(struct cuda_kernel_record) &&
			   offsetof(struct cuda_allocation_record, address) ==
			       offsetof(struct cuda_kernel_record, handle) &&
			   offsetof(struct cuda_allocation_record, bytes) ==
			       offsetof(struct cuda_kernel_record, host_function),
		       "a handle is sent as an address is");
	record = bpf_ringbuf_reserve(&allocations, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(&record->head, thread, call, tgid, now_ns, type, result);
	record->address = 0;
	record->bytes = call->argument[1];
	if (!result && bpf_probe_read_user(&record->address, sizeof(record->address),
					   (const void *)call->argument[0])) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		ACCOUNT(lost[LOST_fault], 1);
		return;
	}
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void send_free(const struct thread *thread, const struct call *call,
				      __u32 tgid, __u64 now_ns, int result)
{
	struct cuda_allocation_record *record;

	record = bpf_ringbuf_reserve(&allocations, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(&record->head, thread, call, tgid, now_ns, CUDA_RECORD_FREE, result);
	record->address = call->argument[0];
	record->bytes = 0;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void send_copy(const struct thread *thread, const struct call *call,
				      __u32 tgid, __u64 now_ns, int result, bool is_async)
{
	struct cuda_copy_record *record;

	record = bpf_ringbuf_reserve(&calls, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(&record->head, thread, call, tgid, now_ns, CUDA_RECORD_COPY, result);
	record->destination = call->argument[0];
	record->source = call->argument[1];
	record->bytes = call->argument[2];
	record->kind = call->argument[3];
	record->is_async = is_async;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void send_launch(const struct thread *thread, const struct call *call,
					__u32 tgid, __u64 now_ns, int result)
{
	struct cuda_launch_record *record;

	record = bpf_ringbuf_reserve(&calls, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(&record->head, thread, call, tgid, now_ns, CUDA_RECORD_LAUNCH, result);
	record->kernel = call->argument[0];
	record->grid[0] = call->argument[1];
	record->grid[1] = call->argument[1] >> 32;
	record->grid[2] = call->argument[2];
	record->block[0] = call->argument[3];
	record->block[1] = call->argument[3] >> 32;
	record->block[2] = call->argument[4];
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void cuda_leave(struct pt_regs *regs, __u64 function)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid;
	int result = PT_REGS_RC(regs);
	struct thread *thread;
	struct call *call;
	__u64 dead = 0;

	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	call = thread ? call_end(&thread->open, regs, function, &dead) : NULL;
	if (!call) {
		if (!thread || !call_encloses(&thread->open, regs))
			ACCOUNT(unmatched, 1);
		return;
	}
	switch (CUDA_COOKIE_OPERATION(function)) {
	case CUDA_ALLOCATE:
		send_written_word(thread, call, tgid, now_ns, CUDA_RECORD_ALLOCATE, result);
		break;
	case CUDA_GET_KERNEL:
		send_written_word(thread, call, tgid, now_ns, CUDA_RECORD_KERNEL, result);
		break;
	case CUDA_FREE:
		send_free(thread, call, tgid, now_ns, result);
		break;
	default:
		if (!within_budget(thread, tgid, now_ns))
			ACCOUNT(lost[LOST_throttled], 1);
		else if (CUDA_COOKIE_OPERATION(function) == CUDA_LAUNCH)
			send_launch(thread, call, tgid, now_ns, result);
		else
			send_copy(thread, call, tgid, now_ns, result,
				  CUDA_COOKIE_OPERATION(function) == CUDA_COPY_ASYNC);
	}
}

CALL_PROGRAMS(cuda_enter, cuda_leave)

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
