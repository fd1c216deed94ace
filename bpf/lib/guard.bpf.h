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

#endif
