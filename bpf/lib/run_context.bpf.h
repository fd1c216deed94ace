/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel knows of the probe that runs a program: its cookie, and in a session the end of
 * the call. The kernel has functions that say both, but each call of one costs some 20 ns on a
 * machine with a defence against speculative execution. So programs attached by uprobe.multi read
 * what these functions read, in the task's run context, if the kernel has it where ours does. To
 * ask for the task is such a call, too: a program does it once, and gives it to all of these. */
#ifndef GPUSNOOP_RUN_CONTEXT_BPF_H
#define GPUSNOOP_RUN_CONTEXT_BPF_H

#include <bpf/bpf_core_read.h>

/* Linux 7.0 gave the kfunc an argument (the context); libbpf binds the one that the kernel has. */
extern bool bpf_session_is_return(void) __ksym __weak;
extern bool bpf_session_is_return___with_context(void *context) __ksym __weak;

/* Before 6.13 there is no session_ctx: the run context that all programs have is first, too. */
static __always_inline bool has_multi_context(void)
{
	return bpf_ksym_exists(bpf_rdonly_cast) &&
	       bpf_core_field_exists(struct task_struct, bpf_ctx) &&
	       bpf_core_field_exists(struct bpf_uprobe_multi_run_ctx, uprobe) &&
	       bpf_core_field_exists(struct bpf_uprobe, cookie) &&
	       (!bpf_core_field_exists(struct bpf_uprobe_multi_run_ctx, session_ctx) ||
		!bpf_core_field_offset(struct bpf_uprobe_multi_run_ctx, session_ctx));
}

static __always_inline struct bpf_uprobe_multi_run_ctx *multi_context(struct task_struct *task)
{
	return bpf_core_cast(task->bpf_ctx, struct bpf_uprobe_multi_run_ctx);
}

/* The cookie of the probe that runs a program attached by uprobe.multi. `task`: the current one. */
static __always_inline __u64 multi_cookie(struct task_struct *task, struct pt_regs *regs)
{
	if (has_multi_context())
		return multi_context(task)->uprobe->cookie;
	return bpf_get_attach_cookie(regs);
}

static __always_inline bool session_is_return(struct task_struct *task, struct pt_regs *regs)
{
	if (has_multi_context() && bpf_core_field_exists(struct bpf_session_run_ctx, is_return))
		return multi_context(task)->session_ctx.is_return;
	if (bpf_ksym_exists(bpf_session_is_return___with_context))
		return bpf_session_is_return___with_context(regs);
	if (bpf_ksym_exists(bpf_session_is_return))
		return bpf_session_is_return();
	return false;
}

#endif
