/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Counts the calls of a probe, and sends its records. Nothing is lost silently: a record that does
 * not fit is counted. */
#ifndef GPUSNOOP_EMIT_BPF_H
#define GPUSNOOP_EMIT_BPF_H

#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/names.bpf.h"
#include "bpf/lib/wire.h"

PERCPU_MAP(NAMED(account), 1, struct probe_account);

/* Not on the stack, which is short (lib/guard.bpf.h). */
static const volatile __u32 account_key = 0;

/* Never NULL: an array map has all its elements. The verifier demands the check. */
static __always_inline struct probe_account *probe_account(void)
{
	return bpf_map_lookup_elem(&NAMED(account), (const void *)&account_key);
}

/* Per-CPU is not private to a uprobe program, so even these additions are atomic. */
#define ACCOUNT(counter, amount)                                                                   \
	({                                                                                         \
		struct probe_account *account_ = probe_account();                                  \
		if (account_)                                                                      \
			__sync_fetch_and_add(&account_->counter, (amount));                        \
	})

/* Records are submitted without waking the exporter, which drains the rings by itself every few
 * milliseconds: a wakeup costs the traced program more than the record does. While the exporter
 * rests, it sets this to 0: then the kernel wakes it for a record that finds its ring drained, also
 * for one that is discarded, as others may be behind it (exporter/ebpf/maps/wakeups.h). Flags and
 * not a condition, which would double the paths that the verifier follows. */
__u64 submit_flags SEC(".data.wakeups") = BPF_RB_NO_WAKEUP;

#define SUBMIT(record)	bpf_ringbuf_submit((record), submit_flags)
#define DISCARD(record) bpf_ringbuf_discard((record), submit_flags)

#endif
