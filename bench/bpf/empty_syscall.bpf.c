// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Programs that do nothing, at system calls: the lowest cost of tracing them. Only for the
 * benchmark. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("tp_btf/sys_enter")
int BPF_PROG(empty_sys_enter, struct pt_regs *regs, long id) {
    return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(empty_sys_leave, struct pt_regs *regs, long result) {
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
