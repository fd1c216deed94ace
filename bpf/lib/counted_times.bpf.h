/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Counting in a table of struct counted_times. */
#ifndef GPUSNOOP_COUNTED_TIMES_BPF_H
#define GPUSNOOP_COUNTED_TIMES_BPF_H

#include "bpf/lib/processes/followed.h"
#include "bpf/lib/emit.bpf.h"

static const struct counted_times no_times;

/* One more, under this key; without room it is lost. */
static __always_inline void count_time(void *table, const void *key, __u64 nanoseconds)
{
	struct counted_times *times = bpf_map_lookup_elem(table, key);

	if (!times) {
		bpf_map_update_elem(table, key, &no_times, BPF_NOEXIST);
		times = bpf_map_lookup_elem(table, key);
	}
	if (!times) {
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	__sync_fetch_and_add(&times->nanoseconds, nanoseconds);
	__sync_fetch_and_add(&times->count, 1);
	ACCOUNT(events, 1);
}

#endif
