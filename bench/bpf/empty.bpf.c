// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The least that tracing a call can cost: programs that do nothing, at the same ends of it. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("uprobe.multi")
int session(struct pt_regs *regs)
{
	return 0;
}

SEC("uprobe.multi")
int multi_enter(struct pt_regs *regs)
{
	return 0;
}

SEC("uretprobe.multi")
int multi_leave(struct pt_regs *regs)
{
	return 0;
}

SEC("uprobe")
int perf_enter(struct pt_regs *regs)
{
	return 0;
}

SEC("uretprobe")
int perf_leave(struct pt_regs *regs)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
