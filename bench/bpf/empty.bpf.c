// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Programs that do nothing, at the entry and the return: the lowest cost of tracing a call. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("uprobe.multi")
int empty_session(struct pt_regs *regs) {
    return 0;
}

SEC("uprobe.multi")
int empty_multi_in(struct pt_regs *regs) {
    return 0;
}

SEC("uretprobe.multi")
int empty_multi_ret(struct pt_regs *regs) {
    return 0;
}

SEC("uprobe")
int empty_perf_in(struct pt_regs *regs) {
    return 0;
}

SEC("uretprobe")
int empty_perf_ret(struct pt_regs *regs) {
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
