/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A call of a kernel function, from a probe on its entry to one on its return. They are attached by
 * perf events; or, where these take CAP_SYS_ADMIN (Debian's and Ubuntu's kernels), by links
 * (kprobe.multi, of Linux 5.18), for which CAP_PERFMON is enough: see KCALL_PROGRAMS.
 *
 * The open calls of a thread are a small stack in its task storage, which the kernel frees with the
 * thread. Functions that run in interrupts are traced too: `current` is then the interrupted
 * thread. An interrupt ends before that thread continues, so calls still end in the reverse order.
 * If the kernel misses a probe (probes do not run inside of BPF programs), an entry has no return
 * or a return has no entry: the former is found by its stack pointer, both are counted. */
#ifndef GPUSNOOP_KCALL_BPF_H
#define GPUSNOOP_KCALL_BPF_H

#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/names.bpf.h"

#define KCALL_DEPTH	4
#define KCALL_ARGUMENTS 4

/* The size of a kernel stack: set by the exporter where pages are larger. */
const volatile __u64 kernel_stack_bytes = 16384;

struct kcall {
	__u64 sp;	  /* at its entry */
	__u64 started_ns; /* 0: of no interest, and not counted */
	__u64 function;	  /* the attach cookie */
	__u64 argument[KCALL_ARGUMENTS];
};

struct kcall_stack {
	__u64 depth;
	struct kcall call[KCALL_DEPTH];
};

/* Does the function run on behalf of the current thread? Interrupts have stacks of their own. */
static __always_inline bool kcall_in_thread(const struct kcall *call)
{
	return call->sp - (__u64)bpf_get_current_task_btf()->stack < kernel_stack_bytes;
}

/* Takes calls off the stack until `depth` are left. Their return was missed. */
static __always_inline void kcall_drop(struct kcall_stack *stack, __u64 depth)
{
	for (int i = 0; i < KCALL_DEPTH; i++) {
		__u64 top = stack->depth - 1;

		barrier_var(top);
		if (top >= KCALL_DEPTH || top < depth)
			break;
		stack->depth = top;
		if (stack->call[top].started_ns)
			ACCOUNT(stale, 1);
	}
}

/* The number of calls that are still open when one is entered with this stack pointer: a call that
 * was entered there, or at a lower address of the same kernel stack, is over. */
static __always_inline __u64 kcall_alive(const struct kcall_stack *stack, __u64 sp)
{
	__u64 alive = stack->depth;

	for (int i = 0; i < KCALL_DEPTH; i++) {
		__u64 top = alive - 1;

		barrier_var(top);
		if (top >= KCALL_DEPTH || sp - stack->call[top].sp >= kernel_stack_bytes)
			break;
		alive = top;
	}
	/* All open, and in truth at most two of them are: of interrupts that are over. */
	return alive < KCALL_DEPTH ? alive : 0;
}

/* Opens a call. The caller sets its start, and counts it. */
static __always_inline struct kcall *kcall_begin(struct kcall_stack *stack, struct pt_regs *regs)
{
	struct kcall *call;
	__u64 top;

	if (stack->depth)
		kcall_drop(stack, kcall_alive(stack, PT_REGS_SP(regs)));
	top = stack->depth;
	if (top >= KCALL_DEPTH)
		return NULL;
	call = &stack->call[top];
	call->sp = PT_REGS_SP(regs);
	call->started_ns = 0;
	call->function = bpf_get_attach_cookie(regs);
	call->argument[0] = PT_REGS_PARM1(regs);
	call->argument[1] = PT_REGS_PARM2(regs);
	call->argument[2] = PT_REGS_PARM3(regs);
	call->argument[3] = PT_REGS_PARM4(regs);
	stack->depth = top + 1;
	return call;
}

/* Closes the latest call of this function. It stays readable until the thread's next entry. NULL:
 * there is none. */
static __always_inline struct kcall *kcall_end(struct kcall_stack *stack, __u64 function)
{
	__u64 depth = stack->depth;

	for (int i = 0; i < KCALL_DEPTH; i++) {
		__u64 at = depth - 1 - i;

		barrier_var(at);
		if (at >= KCALL_DEPTH)
			break;
		if (stack->call[at].function == function) {
			kcall_drop(stack, at + 1);
			stack->depth = at;
			return &stack->call[at];
		}
	}
	return NULL;
}

/* Defines the programs of a probe from its two ends, which return nothing:
 *   void enter(struct pt_regs *regs)
 *   void leave(struct pt_regs *regs)
 * At a return by a link, only the returned value is in the registers. */
#define KCALL_PROGRAMS(enter, leave)                                                               \
	SEC("kprobe")                                                                              \
	int NAMED(begin)(struct pt_regs * regs)                                                    \
	{                                                                                          \
		enter(regs);                                                                       \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("kretprobe")                                                                           \
	int NAMED(end)(struct pt_regs * regs)                                                      \
	{                                                                                          \
		leave(regs);                                                                       \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("kprobe.multi")                                                                        \
	int NAMED(link_in)(struct pt_regs * regs)                                                  \
	{                                                                                          \
		enter(regs);                                                                       \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("kretprobe.multi")                                                                     \
	int NAMED(link_out)(struct pt_regs * regs)                                                 \
	{                                                                                          \
		leave(regs);                                                                       \
		return 0;                                                                          \
	}

#endif
