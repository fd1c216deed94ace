/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Programs that die inside a traced call, by the signals with which a broken probe would kill
 * them. */
#ifndef GPUSNOOP_DEATHS_BPF_H
#define GPUSNOOP_DEATHS_BPF_H

#include "bpf/lib/call.bpf.h"
#include "bpf/lib/emit.bpf.h"

/* `ret` has popped the return address of a call that dies on its way through a return probe. */
#if defined(__TARGET_ARCH_x86)
#define RETURN_ADDRESS_BYTES 8
#else
#define RETURN_ADDRESS_BYTES 0
#endif

/* Is the current thread in one of these calls? One that was left by longjmp may still be open: it
 * is over for certain only where it lies below the thread's stack pointer. */
static __always_inline bool is_in_call(struct task_struct *task, const struct call_stack *open)
{
	struct pt_regs *regs;
	__u64 sp = 0;

	if (!open->depth)
		return false;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	bpf_probe_read_kernel(&sp, sizeof(sp), (void *)&CALL_SP(regs));
	return sp <= open->call[0].sp + RETURN_ADDRESS_BYTES || on_signal_stack(task, sp);
}

static __always_inline bool is_death_signal(int signal)
{
#define SIGNAL(name, number) || signal == (number)
	return false DEATH_SIGNALS(SIGNAL);
#undef SIGNAL
}

/* A signal that the current thread is about to act on: without a handler, it ends the process. */
static __always_inline void count_death(int signal, const struct k_sigaction *action,
					struct task_struct *task, const struct call_stack *open)
{
	if (action->sa.sa_handler || !is_in_call(task, open))
		return;
	switch (signal) {
#define SIGNAL(name, number)                                                                       \
	case number:                                                                               \
		ACCOUNT(deaths[DEATH_##name], 1);                                                  \
		break;
		DEATH_SIGNALS(SIGNAL)
#undef SIGNAL
	}
}

/* Defines the program. `threads` is the probe's task storage, whose values have the open calls in
 * `open`. */
#define DEATH_PROGRAM(threads)                                                                     \
	SEC("tp_btf/signal_deliver")                                                               \
	int NAMED_PROG(signal, int signal, void *info, struct k_sigaction *action)                 \
	{                                                                                          \
		struct task_struct *task = bpf_get_current_task_btf();                             \
		struct thread *thread;                                                             \
                                                                                                   \
		if (!is_death_signal(signal))                                                      \
			return 0;                                                                  \
		thread = bpf_task_storage_get(&(threads), task, NULL, 0);                          \
		if (thread)                                                                        \
			count_death(signal, action, task, &thread->open);                          \
		return 0;                                                                          \
	}

#endif
