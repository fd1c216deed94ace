/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a thread is inside of: which of the calls in its task storage have begun and not ended. */
#ifndef GPUSNOOP_OPEN_CALLS_BPF_H
#define GPUSNOOP_OPEN_CALLS_BPF_H

#include "bpf/lib/call.bpf.h"
#include "bpf/lib/open_call.h"

/* `ret` has popped the return address of a call on its way through a return probe. */
#if defined(__TARGET_ARCH_x86)
#define RETURN_ADDRESS_BYTES 8
#else
#define RETURN_ADDRESS_BYTES 0
#endif

/* The user registers of a thread when it last entered the kernel. That was at the entry of its
 * newest open call or later, as the probe there is an entry, too. */
static __always_inline struct pt_regs *user_registers(struct task_struct *task)
{
	return (struct pt_regs *)bpf_task_pt_regs(task);
}

#define READ_REGISTER(where)                                                                       \
	({                                                                                         \
		__u64 value_ = 0;                                                                  \
		bpf_probe_read_kernel(&value_, sizeof(value_), (void *)&(where));                  \
		value_;                                                                            \
	})

/* Is a thread with the user stack pointer `sp` in the call that was entered with `call_sp`? A call
 * that was left by longjmp or by an exception may still be open: it is over for certain only where
 * it lies below the stack pointer. */
static __always_inline bool is_inside(struct task_struct *task, __u64 call_sp, __u64 sp)
{
	return sp <= call_sp + RETURN_ADDRESS_BYTES || on_signal_stack(task, sp);
}

/* Copies a call that began at least `min_age_ns` before `now_ns`. False: it is younger, or the
 * thread has changed it meanwhile. A call's start is 0 while the entry writes the rest of it
 * (call_begin), and no two calls of a thread have the same start. */
static __always_inline bool copy_open_call(struct open_call *to, const struct call *call,
					   __u64 now_ns, __u64 min_age_ns)
{
	__u64 started_ns = *(volatile __u64 *)&call->started_ns;

	if (!started_ns || started_ns + min_age_ns > now_ns)
		return false;
	barrier();
	to->started_ns = started_ns;
	to->cookie = call->function;
	to->sp = call->sp;
	for (int i = 0; i < OPEN_CALL_ARGUMENTS; i++)
		to->argument[i] = call->argument[i + 1];
	barrier();
	return *(volatile __u64 *)&call->started_ns == started_ns;
}

/* Fills what an ended thread's record says of a call that it was inside of. False: it was not, or
 * not for `after_ns`. For the thread itself, at its end. */
static __always_inline bool fill_unreturned(struct unreturned_call *to, struct task_struct *task,
					    const struct call *call, __u64 after_ns)
{
	if (!copy_open_call(&to->call, call, bpf_ktime_get_ns(), after_ns) ||
	    !is_inside(task, call->sp, READ_REGISTER(CALL_SP(user_registers(task)))))
		return false;
	to->call.tid = task->pid;
	bpf_probe_read_kernel_str(to->call.comm, sizeof(to->call.comm), task->comm);
	to->signal = task->exit_code & 0x7f;
	to->unused = 0;
	return true;
}

#endif
