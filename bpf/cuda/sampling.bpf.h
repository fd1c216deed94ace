/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Launches without a return. A session's entry can decline its return, which is about a fifth of
 * what a launch costs that calls the driver's: then the launch is recorded when it begins, and its
 * duration and its result are unknown. Only each `launch_every`th of a thread is seen to end, and
 * all while launches fail or do not return. */
#ifndef GPUSNOOP_CUDA_SAMPLING_BPF_H
#define GPUSNOOP_CUDA_SAMPLING_BPF_H

#include "bpf/cuda/calls.bpf.h"

/* 0: all are seen to end. Otherwise the programs are those of a session, and keep no times. */
const volatile __u32 launch_every = 0;

/* How many launches of a thread are seen to end after one that failed, or that the thread left
 * without a return (longjmp, an exception). */
#define SEEN_AFTER_FAILURE 1024

/* Launches of graphs are not among them: what they launch is counted when they end. */
static __always_inline bool is_launch_of_kernel(__u64 cookie)
{
	return CUDA_LAUNCHES_KERNEL(CUDA_COOKIE_OPERATION(cookie));
}

/* Can the unseen launch still be open, as far as its return address says? */
static __always_inline bool returns_as_before(struct thread *thread)
{
#if defined(__TARGET_ARCH_x86)
	thread->words[0] = 0;
	bpf_probe_read_user(thread->words, sizeof(thread->words[0]),
			    (const void *)thread->unseen.sp);
	return thread->words[0] == thread->unseen.returns_to;
#else
	return true; /* it was in a register, and may be anywhere now */
#endif
}

/* The runtime's unseen launch has no open call, so a launch inside of it looks like one that the
 * program makes. The driver's is the first that begins further down the stack while the return
 * address of the runtime's is in its place: as soon as the program's next call from there begins,
 * another address is there. A function of the runtime that jumps to another one leaves both at one
 * place, to which a program's next launch can come only by the same function. */
static __always_inline bool is_in_unseen_launch(struct thread *thread, struct pt_regs *regs)
{
	struct unseen_launch *unseen = &thread->unseen;
	__u64 sp = CALL_SP(regs);

	if (!unseen->sp || !is_launch_of_kernel(thread->cookie))
		return false;
	if (thread->cookie & CUDA_OF_DRIVER
		? sp < unseen->sp && returns_as_before(thread)
		: sp == unseen->sp && thread->cookie != unseen->function &&
		      call_caller(regs) == unseen->returns_to) {
		if (thread->cookie & CUDA_OF_DRIVER)
			unseen->sp = 0; /* it makes one */
		return true;
	}
	unseen->sp = 0;
	return false;
}

static __always_inline bool is_to_be_seen(struct thread *thread, const struct call *call)
{
	if (thread->capture || !is_launch_of_kernel(call->function))
		return true;
	if (thread->to_see) {
		thread->to_see--;
		return true;
	}
	if (thread->to_leave_unseen) {
		thread->to_leave_unseen--;
		return false;
	}
	thread->to_leave_unseen = launch_every - 1;
	return true;
}

/* The open call is a launch whose end will not be seen. */
static __always_inline void record_unseen(struct thread *thread, struct call *call,
					  struct pt_regs *regs)
{
	thread->open.depth = 0;
	thread->ended_ns = call->started_ns = bpf_ktime_get_ns();
	thread->result = 0;
	if (!(call->function & CUDA_OF_DRIVER)) {
		thread->unseen.sp = call->sp;
		thread->unseen.returns_to = call_caller(regs);
		thread->unseen.function = call->function;
	}
	if (within_budget(thread))
		send_launch(thread, call, CUDA_RECORD_UNSEEN_LAUNCH);
	else
		ACCOUNT(lost[LOST_throttled], 1);
}

static __always_inline void see_launches_after(struct thread *thread, const struct call *call)
{
	if (launch_every && is_launch_of_kernel(call->function))
		thread->to_see = SEEN_AFTER_FAILURE;
}

#endif
