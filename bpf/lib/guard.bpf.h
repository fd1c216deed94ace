/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* uprobe programs run preemptible. On kernels >= 6.13 built with preemption, a preempted one with
 * 64 bytes of stack or more is corrupted (private stacks, commit a76ab5731e32, under programs that
 * may migrate since 8c7dcb84e3b7). The verifier rounds up to 16, so ours use 48 bytes at most
 * (check_stack.sh), and where the kernel lets us (6.10), they are not preempted at all. */
#ifndef GPUSNOOP_GUARD_BPF_H
#define GPUSNOOP_GUARD_BPF_H

extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline void guard_begin(void)
{
	if (bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_disable();
}

static __always_inline void guard_end(void)
{
	if (bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_enable();
}

/* Programs at tracepoints are not preempted up to Linux 6.18: every tracepoint's caller forbids it,
 * that of system calls too (commit 4aadde89d81f). 7.2 does not any more, and while a program is
 * preempted, the kernel skips it for other threads on that CPU. With the guard that can hardly
 * happen. It costs as much as a lookup of a process, so it is used only where it is needed. */
extern int LINUX_KERNEL_VERSION __kconfig;

static __always_inline void tracepoint_guard_begin(void)
{
	if (LINUX_KERNEL_VERSION >= KERNEL_VERSION(6, 19, 0))
		guard_begin();
}

static __always_inline void tracepoint_guard_end(void)
{
	if (LINUX_KERNEL_VERSION >= KERNEL_VERSION(6, 19, 0))
		guard_end();
}

#endif
