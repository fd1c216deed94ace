/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A call of a user-space function, from its entry to its return, the same for the three ways to
 * attach: one session program for both ends (kernel >= 6.13), a uprobe.multi pair (6.6), a perf
 * uprobe pair.
 *
 * A thread's open calls are a small stack in its task storage, which the kernel frees with the
 * thread. A call is known by where its return address lies (its stack pointer at entry): unlike a
 * depth counter this stays right when calls end by longjmp, by a signal, or not at all. */
#ifndef GPUSNOOP_CALL_BPF_H
#define GPUSNOOP_CALL_BPF_H

#include "bpf/lib/cost.h"
#include "bpf/lib/guard.bpf.h"
#include "bpf/lib/names.bpf.h"
#include "bpf/lib/run_context.bpf.h"

/* A probe defines the following before it includes this file, the second and third only where it
 * needs another value.
 *
 * CALL_DEPTH: how many open calls of a thread are kept. */
#ifndef CALL_DEPTH
#error "define CALL_DEPTH"
#endif
/* CALL_SLOTS: how many arguments of a call are kept, by their position in the C declaration, from 1
 * on. Slot 0 is always 0: an argument that a function does not have. */
#ifndef CALL_SLOTS
#define CALL_SLOTS 16
#endif
/* CALL_HAS_RETURN_PROBE(call): true if there is a return probe on the function, false if there are
 * probes on the instructions that leave it. */
#ifndef CALL_HAS_RETURN_PROBE
#define CALL_HAS_RETURN_PROBE(call) true
#endif
/* CALL_AFTER_ENTRY(regs, skip): what a program at an entry does last, outside of the guard, with
 * what enter() has returned; its value replaces that. */
#ifndef CALL_AFTER_ENTRY
#define CALL_AFTER_ENTRY(regs, skip) (skip)
#endif
/* CALL_AFTER_RETURN(regs), CALL_AFTER_EXIT(regs): the same of the programs at a return, and at an
 * instruction that leaves a function. */
#ifndef CALL_AFTER_RETURN
#define CALL_AFTER_RETURN(regs) ((void)0)
#define CALL_AFTER_EXIT(regs)	((void)0)
#endif

struct call {
	__u64 sp;
	__u64 started_ns;
	__u64 function; /* the attach cookie */
	__u64 argument[CALL_SLOTS];
};

struct call_stack {
	__u64 depth;
	__u64 trampoline; /* scratch of call_drop_dead() */
	struct call call[CALL_DEPTH];
};

#if defined(__TARGET_ARCH_x86)
#define CALL_SP(regs) ((regs)->sp)
/* `ret` has popped the return address when the return probe runs. */
#define CALL_SP_AT_RETURN(regs) ((regs)->sp - 8)
#else
#define CALL_SP(regs)		((regs)->user_regs.sp)
#define CALL_SP_AT_RETURN(regs) ((regs)->user_regs.sp)
#endif

/* Where a function returns to while a return probe waits for it: the first word of the process's
 * uprobe page (uprobe_get_trampoline_vaddr() in kernel/events/uprobes.c). */
static __always_inline __u64 return_trampoline(struct task_struct *task)
{
	struct xol_area *area;

	if (!task->mm)
		return 0;
	area = task->mm->uprobes_state.xol_area;
	return area ? area->vaddr : 0;
}

static __always_inline bool on_signal_stack(struct task_struct *task, __u64 sp)
{
	return sp - task->sas_ss_sp < task->sas_ss_size;
}

/* Can the call at `at` still return, now that its thread enters a function with stack pointer `sp`?
 * A call above the present one has left its frame by longjmp or the like (the same rule by which
 * the kernel drops its return probe, arch_uretprobe_is_alive()), unless we are in a signal handler
 * with a stack of its own. A call below it is alive if its return address still leads to the
 * trampoline. Without a return probe this is unknown, but of two calls at one place the first is
 * over. */
static __always_inline bool call_is_alive(struct task_struct *task, const struct call_stack *stack,
					  __u64 at, struct pt_regs *regs)
{
	const struct call *call = &stack->call[at];
	__u64 sp = CALL_SP(regs);
	__u64 return_address = 0;

	if (call->sp < sp && !(on_signal_stack(task, sp) && !on_signal_stack(task, call->sp)))
		return false;
	if (!CALL_HAS_RETURN_PROBE(call))
		return call->sp != sp;
#if defined(__TARGET_ARCH_x86)
	/* A page that is not in memory, or that is being moved, cannot be read here. */
	if (bpf_probe_read_user(&return_address, sizeof(return_address), (const void *)call->sp))
		return call->sp != sp;
	return return_address == stack->trampoline;
#else
	/* The return address is in a register first, and then anywhere: only a tail call can be
	 * detected. */
	return_address = regs->user_regs.regs[30];
	return call->sp != sp || return_address == stack->trampoline;
#endif
}

/* Forgets the calls that can no longer return. Returns their number. */
static __always_inline __u64 call_drop_dead(struct task_struct *task, struct call_stack *stack,
					    struct pt_regs *regs)
{
	__u64 dropped = 0;

	/* Once, as the verifier takes long for it: bpf/lib/processes/process.bpf.h. */
	stack->trampoline = return_trampoline(task);
	for (int i = 0; i < CALL_DEPTH; i++) {
		__u64 top = *(volatile __u64 *)&stack->depth - 1; /* as in call_end_at() */

		barrier_var(top);
		if (top >= CALL_DEPTH || call_is_alive(task, stack, top, regs))
			break;
		stack->depth = top;
		dropped++;
	}
	return dropped;
}

/* Opens a call. NULL when CALL_DEPTH are open already. */
static __always_inline struct call *call_begin(struct call_stack *stack, struct pt_regs *regs,
					       __u64 cookie)
{
	__u64 top = stack->depth;
	struct call *call;

	if (top >= CALL_DEPTH)
		return NULL;
	call = &stack->call[top];
	*(volatile __u64 *)&call->started_ns = 0; /* for a reader: the rest is not valid yet */
	barrier();
	call->sp = CALL_SP(regs);
	call->function = cookie;
	call->argument[1] = PT_REGS_PARM1(regs);
	call->argument[2] = PT_REGS_PARM2(regs);
	call->argument[3] = PT_REGS_PARM3(regs);
	call->argument[4] = PT_REGS_PARM4(regs);
	call->argument[5] = PT_REGS_PARM5(regs);
	call->argument[6] = PT_REGS_PARM6(regs);
	stack->depth = top + 1;
	return call;
}

#if CALL_SLOTS > 7
/* Reads only the seventh argument, for calls that are made often. */
static __always_inline void call_read_seventh(struct call *call, struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	__u64 word = 0; /* not the call itself: the kernel checks what is copied to its heap */

	bpf_probe_read_user(&word, sizeof(word), (const void *)(CALL_SP(regs) + 8));
	call->argument[7] = word;
#else
	call->argument[7] = regs->user_regs.regs[6];
#endif
}

#endif

#if CALL_SLOTS > 9
/* Reads the arguments after the sixth. At entry, as the callee may change them. */
static __always_inline void call_read_stack(struct call *call, struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	bpf_probe_read_user(&call->argument[7], (CALL_SLOTS - 7) * sizeof(__u64),
			    (const void *)(CALL_SP(regs) + 8));
#else
	call->argument[7] = regs->user_regs.regs[6];
	call->argument[8] = regs->user_regs.regs[7];
	bpf_probe_read_user(&call->argument[9], (CALL_SLOTS - 9) * sizeof(__u64),
			    (const void *)CALL_SP(regs));
#endif
}
#endif

/* The call's duration begins now: after our own work. */
static __always_inline void call_start(struct call *call)
{
	call->started_ns = bpf_ktime_get_ns();
}

/* The instruction behind the calling one; 0: it could not be read. */
static __always_inline __u64 call_caller(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	__u64 caller = 0; /* on the stack, as above */

	bpf_probe_read_user(&caller, sizeof(caller), (const void *)CALL_SP(regs));
	return caller;
#else
	__u64 caller = regs->user_regs.regs[30];

	/* Else the compiler makes one read of this one and another register's, at an offset that it
	 * computes, which the verifier refuses. */
	barrier_var(caller);
	return caller;
#endif
}

/* Closes the call that was entered with the stack pointer `sp`, and any above it that never
 * returned (*dropped). The call stays readable until the thread's next entry. NULL: there is none.
 */
static __always_inline struct call *call_end_at(struct call_stack *stack, __u64 sp, __u64 function,
						__u64 *dropped)
{
	for (int i = 0; i < CALL_DEPTH; i++) {
		/* Read each time: otherwise each comparison teaches the verifier more about the
		 * value, and it checks all the following code again for each round. */
		__u64 at = *(volatile __u64 *)&stack->depth - 1 - i;

		barrier_var(at);
		if (at >= CALL_DEPTH)
			break;
		if (stack->call[at].sp == sp && stack->call[at].function == function) {
			*dropped = i;
			stack->depth = at;
			return &stack->call[at];
		}
	}
	return NULL;
}

/* The same at a return probe. */
static __always_inline struct call *call_end(struct call_stack *stack, struct pt_regs *regs,
					     __u64 function, __u64 *dropped)
{
	return call_end_at(stack, CALL_SP_AT_RETURN(regs), function, dropped);
}

/* Is there an open call in which a call at `sp` is nested? Then a return there is a nested one. */
static __always_inline bool call_encloses(const struct call_stack *stack, struct pt_regs *regs)
{
	__u64 top = stack->depth - 1;

	return top < CALL_DEPTH && stack->call[top].sp >= CALL_SP_AT_RETURN(regs);
}

/* Defines the programs of a probe from its two ends:
 *   long enter(struct pt_regs *regs, struct task_struct *task, __u64 cookie)
 *                                   non-zero: the return is of no interest
 *   void leave(struct pt_regs *regs, struct task_struct *task, __u64 function)
 * The task is the current one. The cookie is the probe's, as it is; the function is the cookie
 * without CALL_STEPPED. The exporter loads one of the three sets. In a session, a non-zero enter()
 * spares the target the second trap; the pairs ignore it. */
#define CALL_PROGRAMS(enter, leave)                                                                \
	static __always_inline int guarded_enter(struct pt_regs *regs, struct task_struct *task,   \
						 __u64 cookie)                                     \
	{                                                                                          \
		long skip;                                                                         \
                                                                                                   \
		guard_begin();                                                                     \
		skip = enter(regs, task, cookie);                                                  \
		guard_end();                                                                       \
		return CALL_AFTER_ENTRY(regs, skip) != 0;                                          \
	}                                                                                          \
                                                                                                   \
	static __always_inline int guarded_leave(struct pt_regs *regs, struct task_struct *task,   \
						 __u64 cookie)                                     \
	{                                                                                          \
		guard_begin();                                                                     \
		leave(regs, task, cookie & ~CALL_STEPPED);                                         \
		guard_end();                                                                       \
		CALL_AFTER_RETURN(regs);                                                           \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("uprobe.multi")                                                                        \
	int NAMED(session)(struct pt_regs * regs)                                                  \
	{                                                                                          \
		struct task_struct *task = bpf_get_current_task_btf();                             \
                                                                                                   \
		if (session_is_return(task, regs))                                                 \
			return guarded_leave(regs, task, multi_cookie(task, regs));                \
		return guarded_enter(regs, task, multi_cookie(task, regs));                        \
	}                                                                                          \
                                                                                                   \
	SEC("uprobe.multi")                                                                        \
	int NAMED(multi_in)(struct pt_regs * regs)                                                 \
	{                                                                                          \
		struct task_struct *task = bpf_get_current_task_btf();                             \
                                                                                                   \
		guarded_enter(regs, task, multi_cookie(task, regs));                               \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("uretprobe.multi")                                                                     \
	int NAMED(multi_ret)(struct pt_regs * regs)                                                \
	{                                                                                          \
		struct task_struct *task = bpf_get_current_task_btf();                             \
                                                                                                   \
		return guarded_leave(regs, task, multi_cookie(task, regs));                        \
	}                                                                                          \
                                                                                                   \
	SEC("uprobe")                                                                              \
	int NAMED(perf_in)(struct pt_regs * regs)                                                  \
	{                                                                                          \
		__u64 cookie = bpf_get_attach_cookie(regs);                                        \
                                                                                                   \
		guarded_enter(regs, bpf_get_current_task_btf(), cookie);                           \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("uretprobe")                                                                           \
	int NAMED(perf_ret)(struct pt_regs * regs)                                                 \
	{                                                                                          \
		__u64 cookie = bpf_get_attach_cookie(regs);                                        \
                                                                                                   \
		return guarded_leave(regs, bpf_get_current_task_btf(), cookie);                    \
	}

/* And from a third, at the instructions that leave a function, for session and multi, or perf:
 *   void leave(struct pt_regs *regs, struct task_struct *task, __u64 cookie) */
#define CALL_EXIT_PROGRAMS(leave)                                                                  \
	static __always_inline int guarded_exit(struct pt_regs *regs, struct task_struct *task,    \
						__u64 cookie)                                      \
	{                                                                                          \
		guard_begin();                                                                     \
		leave(regs, task, cookie);                                                         \
		guard_end();                                                                       \
		CALL_AFTER_EXIT(regs);                                                             \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("uprobe.multi")                                                                        \
	int NAMED(multi_exit)(struct pt_regs * regs)                                               \
	{                                                                                          \
		struct task_struct *task = bpf_get_current_task_btf();                             \
                                                                                                   \
		return guarded_exit(regs, task, multi_cookie(task, regs));                         \
	}                                                                                          \
                                                                                                   \
	SEC("uprobe")                                                                              \
	int NAMED(perf_exit)(struct pt_regs * regs)                                                \
	{                                                                                          \
		__u64 cookie = bpf_get_attach_cookie(regs);                                        \
                                                                                                   \
		return guarded_exit(regs, bpf_get_current_task_btf(), cookie);                     \
	}

#endif
