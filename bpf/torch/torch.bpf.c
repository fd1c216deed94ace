// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* PyTorch's allocators tell a profiler of each block that they give out or take back, and of each
 * request that they refuse. c10/cuda/CUDACachingAllocator.cpp calls these functions of libc10
 * whether there is a profiler or not (alloc_found_block(), free() and malloc() of
 * DeviceCachingAllocator, with the device's lock held), and they look for one then. So their
 * entries are enough: one record for each call, with its arguments, or with sampling for some. */
#define PROBE torch

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/python/stacks.h"
#include "bpf/lib/traced.bpf.h"
#include "bpf/torch/torch.h"

#define CALL_DEPTH		     1 /* no call is followed to its end */
#define CALL_AFTER_ENTRY(regs, skip) continue_entry(regs, skip)
static __always_inline long continue_entry(struct pt_regs *regs, long skip);
#include "bpf/lib/call.bpf.h"
#include "bpf/lib/cost.bpf.h"

/* Keep the whole stack of each allocation, not only where the call returns to? */
const volatile bool keep_stacks = true;

/* Send records of sampled blocks only, and add all calls up? */
const volatile bool is_sampling = false;

/* The most blocks of one process that are sampled at a time. */
const volatile __u64 max_blocks_of_process = 1 << 16;

struct thread {
	struct traced_thread traced;
	__u64 cost_ns; /* that its process does not have yet */
	/* Of the present call: */
	__u64 function;
	struct torch_record record; /* without its head */
	/* The same with sampling: */
	struct python_key process;
	struct torch_totals_key device;
	struct torch_block_key block;
	__u64 block_ns;
	/* Never changed, or only before it is entered in a table: */
	struct torch_totals no_totals;
	struct torch_sampling sampling;
};

#define PYTHON_PROCESS(thread) (&(thread)->process)
#define PYTHON_STACK(thread)   ((thread)->record.python)
#include "bpf/lib/python/stacks.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} torch_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 8192);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, TORCH_STACK_FRAMES * sizeof(__u64));
} torch_stacks SEC(".maps");

static __always_inline void add_torch_cost(struct thread *thread, __u32 ns)
{
	add_cost(&torch_procs, &thread->traced.tgid, &thread->cost_ns, ns);
}

/* Where the call comes from, of an allocation: a free needs no site. */
static __always_inline void note_site(struct thread *thread, struct pt_regs *regs)
{
	thread->record.caller = 0;
	thread->record.stack = -1;
	if (thread->function == TORCH_REPORTS_OUT_OF_MEMORY || thread->record.bytes <= 0)
		return;
	thread->record.caller = call_caller(regs);
	if (keep_stacks) {
		thread->record.stack = bpf_get_stackid(regs, &torch_stacks, BPF_F_USER_STACK);
		add_torch_cost(thread, costs.stack);
	}
}

static __always_inline void fill_head(struct thread *thread, struct torch_record *record)
{
	fill_traced(&record->head, thread->traced.since_ns, thread->traced.tgid,
		    thread->function == TORCH_REPORTS_OUT_OF_MEMORY ? TORCH_OUT_OF_MEMORY
								    : TORCH_USAGE);
}

/* After the reservation: nobody would remove the stack of a record that is lost. */
static __always_inline void submit_record(struct thread *thread, struct torch_record *record,
					  struct pt_regs *regs)
{
	note_site(thread, regs);
	*record = thread->record;
	fill_head(thread, record);
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline struct torch_record *reserve_record(void)
{
	struct torch_record *record = bpf_ringbuf_reserve(&torch_events, sizeof(*record), 0);

	if (!record)
		ACCOUNT(lost[LOST_ring_full], 1);
	return record;
}

static __always_inline void fill_totals(struct torch_record *record, __u64 allocated,
					__u64 reserved, __u16 flags)
{
	record->allocated = allocated;
	record->reserved = reserved;
	record->flags = flags;
}

/* The barriers keep the compiler from reading the device in one place for all functions: the
 * verifier allows no computed offset in the registers. */
static __always_inline void fill_arguments(struct torch_record *record, struct pt_regs *regs,
					   __u64 function)
{
	__u64 device;

	if (function == TORCH_REPORTS_OUT_OF_MEMORY) {
		record->address = 0;
		record->bytes = PT_REGS_PARM1(regs);
		fill_totals(record, PT_REGS_PARM2(regs), PT_REGS_PARM3(regs), TORCH_HAS_TOTALS);
		device = PT_REGS_PARM4(regs);
		barrier_var(device);
	} else {
		record->address = PT_REGS_PARM1(regs);
		record->bytes = PT_REGS_PARM2(regs);
		if (function == TORCH_REPORTS_USAGE) {
			fill_totals(record, PT_REGS_PARM3(regs), PT_REGS_PARM4(regs),
				    TORCH_HAS_TOTALS);
			device = PT_REGS_PARM5(regs);
			barrier_var(device);
		} else {
			fill_totals(record, 0, 0, 0);
			device = PT_REGS_PARM3(regs);
			barrier_var(device);
		}
	}
	record->device_type = (__s8)device;
	record->device = (__s8)(device >> 8);
}

#include "bpf/torch/samples.bpf.h"

static __always_inline long torch_enter(struct pt_regs *regs, struct task_struct *task,
					__u64 cookie)
{
	struct torch_record *record;
	struct thread *thread;

	ACCOUNT(entered, 1);
	thread = bpf_task_storage_get(&torch_threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ACCOUNT(lost[LOST_no_state], 1);
		return 1;
	}
	if (!thread->traced.since_ns && !enter_traced(&thread->traced, task))
		return 1;
	thread->function = cookie;
	add_torch_cost(thread, cost_of_entry(thread->function) + costs.record);
	thread->function &= ~CALL_STEPPED;
	fill_arguments(&thread->record, regs, thread->function);
	if (is_sampling && thread->function != TORCH_REPORTS_OUT_OF_MEMORY)
		return enter_sampled(thread, regs);
	record = reserve_record();
	if (record)
		submit_record(thread, record, regs);
	return 1;
}

/* No point has a return probe. */
static __always_inline void torch_leave(struct pt_regs *regs, struct task_struct *task,
					__u64 function)
{
}

CALL_PROGRAMS(torch_enter, torch_leave)

static __always_inline void forget_thread(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&torch_threads, task, NULL, 0);

	if (!thread)
		return;
	if (thread->cost_ns)
		hand_over_cost(&torch_procs, &thread->traced.tgid, &thread->cost_ns);
	bpf_task_storage_delete(&torch_threads, task);
}

static __always_inline void end_process(__u32 tgid)
{
	if (is_sampling)
		bpf_map_delete_elem(&torch_samplings, &tgid);
	leave_traced(tgid);
}

END_PROGRAMS(forget_thread, end_process)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
