// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* A program that does nothing, at the switch from one thread to another: the lowest cost of seeing
 * it. Only for the benchmark. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("tp_btf/sched_switch")
int BPF_PROG(empty_switch, bool preempted, struct task_struct *from, struct task_struct *to) {
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
