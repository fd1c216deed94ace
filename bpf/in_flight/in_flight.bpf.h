/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The iterators over the threads that are inside of a traced call. They are objects of their own,
 * which use the map of the probe: a kernel that refuses them runs the probe. */
#ifndef GPUSNOOP_IN_FLIGHT_BPF_H
#define GPUSNOOP_IN_FLIGHT_BPF_H

#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/open_calls.bpf.h"

/* Younger calls are not listed. */
volatile __u64 min_age_ns = 0;

struct in_flight_scratch {
	struct open_call_record call;
	struct return_instance *returns; /* the innermost that is not behind the listed calls */
	__u64 now_ns;
	__u64 sp;
	struct blocked_thread_record thread;
	__u64 frames[OPEN_CALL_KERNEL_FRAMES];
};

PERCPU_MAP(NAMED(in_flight), 1, struct in_flight_scratch);

static __always_inline struct in_flight_scratch *in_flight_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&NAMED(in_flight), &zero);
}

/* How many return probes of others may lie between two of our calls. */
#define FOREIGN_RETURNS 4

/* Where the call that is listed now returns to, by the kernel's own list of return probes. 0: it
 * has none of these. The next listed call is one around it. */
static __always_inline __u64 returns_to(struct in_flight_scratch *scratch)
{
	if ((__s64)scratch->call.call.sp < 0)
		return 0; /* between two marks: it returns nowhere */
	for (int i = 0; i <= FOREIGN_RETURNS; i++) {
		struct return_instance *instance = scratch->returns;
		__u64 at;

		if (!instance)
			return 0;
		at = BPF_CORE_READ(instance, stack);
		if (at == scratch->call.call.sp)
			return BPF_CORE_READ(instance, orig_ret_vaddr);
		if (at > scratch->call.call.sp)
			return 0;
		scratch->returns = BPF_CORE_READ(instance, next);
	}
	return 0;
}

/* Fills the fields that the records of all calls of a thread share. */
static __always_inline void begin_calls(struct in_flight_scratch *scratch, struct task_struct *task,
					__u64 since_ns, __s32 device)
{
	struct open_call_record *record = &scratch->call;

	scratch->returns = task->utask ? task->utask->return_instances : NULL;
	scratch->now_ns = bpf_ktime_get_ns();
	scratch->sp = READ_REGISTER(CALL_SP(user_registers(task)));
	record->since_ns = since_ns;
	record->tgid = task->tgid;
	record->unused = 0;
	record->call.tid = task->pid;
	record->call.device = device;
	bpf_probe_read_kernel_str(record->call.comm, sizeof(record->call.comm), task->comm);
}

/* Writes a record for each open call, the innermost first. */
static __always_inline void list_calls(struct seq_file *out, struct task_struct *task,
				       const struct call_stack *open,
				       struct in_flight_scratch *scratch)
{
	for (int i = 0; i < CALL_DEPTH; i++) {
		__u64 at = *(volatile __u64 *)&open->depth - 1 - i;

		barrier_var(at);
		if (at >= CALL_DEPTH)
			break;
		if (!copy_open_call(&scratch->call.call, &open->call[at], scratch->now_ns,
				    min_age_ns) ||
		    !is_inside(task, scratch->call.call.sp, scratch->sp))
			continue;
		scratch->call.returns_to = returns_to(scratch);
		bpf_seq_write(out, &scratch->call, sizeof(scratch->call));
	}
}

static __always_inline void read_registers(struct blocked_thread_record *record,
					   struct task_struct *task)
{
	struct pt_regs *regs = user_registers(task);

#define READ_INTO(field, where)                                                                    \
	bpf_probe_read_kernel(&record->field, sizeof(record->field), (void *)&(where))
	READ_INTO(instruction, PT_REGS_IP(regs));
	READ_INTO(stack, CALL_SP(regs));
	READ_INTO(frame, PT_REGS_FP(regs));
#if !defined(__TARGET_ARCH_x86)
	READ_INTO(link, regs->user_regs.regs[30]);
#endif
#undef READ_INTO
}

static const char symbol_format[] = "%ps";

/* The kernel names its own functions, so that nobody has to read its addresses. */
static __always_inline void name_kernel_stack(struct in_flight_scratch *scratch,
					      struct task_struct *task)
{
	struct blocked_thread_record *record = &scratch->thread;
	long bytes = bpf_get_task_stack(task, scratch->frames, sizeof(scratch->frames), 0);

	record->kernel_frames = 0;
	for (int i = 0; i < OPEN_CALL_KERNEL_FRAMES; i++) {
		if (bytes < (long)((i + 1) * sizeof(__u64)))
			break;
		bpf_snprintf(record->kernel[i], sizeof(record->kernel[i]), symbol_format,
			     &scratch->frames[i], sizeof(__u64));
		record->kernel_frames = i + 1;
	}
}

/* Writes one record, if the innermost call of the thread is old enough. */
static __always_inline void list_thread(struct seq_file *out, struct task_struct *task,
					const struct call_stack *open,
					struct in_flight_scratch *scratch)
{
	__u64 top = open->depth - 1;
	struct blocked_thread_record *record;

	barrier_var(top);
	if (top >= CALL_DEPTH ||
	    !copy_open_call(&scratch->call.call, &open->call[top], bpf_ktime_get_ns(), min_age_ns))
		return;
	record = &scratch->thread;
	__builtin_memset(record, 0, sizeof(*record));
	record->call_started_ns = scratch->call.call.started_ns;
	record->code_start = task->mm ? task->mm->start_code : 0;
	record->trampoline = return_trampoline(task);
	record->tgid = task->tgid;
	record->tid = task->pid;
	record->state = task->__state;
	read_registers(record, task);
	name_kernel_stack(scratch, task);
	bpf_seq_write(out, record, sizeof(*record));
}

/* Defines a program that runs `body` for each thread that has open calls. */
#define IN_FLIGHT_PROGRAM(program, threads, body)                                                  \
	SEC("iter/task")                                                                           \
	int program(struct bpf_iter__task *context)                                                \
	{                                                                                          \
		struct in_flight_scratch *scratch = in_flight_scratch();                           \
		struct task_struct *task = context->task;                                          \
		struct thread *thread;                                                             \
                                                                                                   \
		if (!task || !scratch)                                                             \
			return 0;                                                                  \
		thread = bpf_task_storage_get(&(threads), task, NULL, 0);                          \
		if (thread && thread->open.depth) {                                                \
			body                                                                       \
		}                                                                                  \
		return 0;                                                                          \
	}

/* Defines the programs. `threads` is the probe's task storage, whose values have the open calls in
 * `open` and the process in `since_ns`; `device` is an expression of `thread`. */
#define IN_FLIGHT_PROGRAMS(threads, device)                                                        \
	IN_FLIGHT_PROGRAM(NAMED(calls), threads, {                                                 \
		begin_calls(scratch, task, thread->since_ns, device);                              \
		list_calls(context->meta->seq, task, &thread->open, scratch);                      \
	})                                                                                         \
	IN_FLIGHT_PROGRAM(NAMED(blocked), threads,                                                 \
			  list_thread(context->meta->seq, task, &thread->open, scratch);)

#endif
