/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Programs that die inside a traced call, by the signals with which a broken probe would kill
 * them. */
#ifndef GPUSNOOP_DEATHS_BPF_H
#define GPUSNOOP_DEATHS_BPF_H

#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/open_calls.bpf.h"

/* Is the current thread in one of these calls? */
static __always_inline bool is_in_call(struct task_struct *task, const struct call_stack *open)
{
	return open->depth &&
	       is_inside(task, open->call[0].sp, READ_REGISTER(CALL_SP(user_registers(task))));
}

static __always_inline bool is_death_signal(int signal)
{
#define SIGNAL(name, number) || signal == (number)
	return false DEATH_SIGNALS(SIGNAL);
#undef SIGNAL
}

/* A signal that the current thread is about to act on: without a handler, it ends the process. */
static __always_inline void count_death(int signal, const struct k_sigaction *action)
{
	if (action->sa.sa_handler)
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

/* Defines the program. `threads` is the probe's task storage; `is_in_traced_call` says of `task`
 * and its value `thread` whether it is in a traced call. */
#define DEATH_PROGRAM(threads, is_in_traced_call)                                                  \
	SEC("tp_btf/signal_deliver")                                                               \
	int NAMED_PROG(signal, int signal, void *info, struct k_sigaction *action)                 \
	{                                                                                          \
		struct task_struct *task = bpf_get_current_task_btf();                             \
		struct thread *thread;                                                             \
                                                                                                   \
		if (!is_death_signal(signal))                                                      \
			return 0;                                                                  \
		thread = bpf_task_storage_get(&(threads), task, NULL, 0);                          \
		if (thread && (is_in_traced_call))                                                 \
			count_death(signal, action);                                               \
		return 0;                                                                          \
	}

#endif
