/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* For `gpusnoop_exporter trace`: calls of some processes only. If the list is empty, as in the
 * exporter, the verifier removes this check as dead code. */
#ifndef GPUSNOOP_TRACED_PIDS_BPF_H
#define GPUSNOOP_TRACED_PIDS_BPF_H

#include <bpf/bpf_helpers.h>

#include "bpf/lib/processes/process.h"

const volatile __u32 traced_pids[TRACED_PIDS] = {};
const volatile __u32 traced_pid_count = 0;

static __always_inline bool is_traced_process(__u32 tgid)
{
	if (!traced_pid_count)
		return true;
	for (__u32 i = 0; i < TRACED_PIDS; i++)
		if (i < traced_pid_count && traced_pids[i] == tgid)
			return true;
	return false;
}

#endif
