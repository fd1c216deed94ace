/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A bit for each possible process id. A program that runs at every system call of the machine must
 * find out whether the process is in a table: in most cases it reads one word and does not hash.
 * The bit is set before the process is in the table and cleared after it is out, so a 0 is always
 * right; a stale 1 costs a lookup in the table. */
#ifndef GPUSNOOP_PROCESS_FILTER_BPF_H
#define GPUSNOOP_PROCESS_FILTER_BPF_H

#include "bpf/lib/processes/process.h"

struct process_filter {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROCESS_FILTER_WORDS);
	__type(key, __u32);
	__type(value, __u64);
};

static __always_inline __u64 process_filter_bit(__u32 tgid)
{
	return 1ULL << (tgid & 63);
}

/* `key`: scratch, so that the caller's stack has one key at a time. */
static __always_inline __u64 *process_filter_word(void *filter, __u32 tgid, __u32 *key)
{
	*key = tgid >> 6;
	return bpf_map_lookup_elem(filter, key);
}

static __always_inline bool may_have_process(void *filter, __u32 tgid, __u32 *key)
{
	const __u64 *word = process_filter_word(filter, tgid, key);

	return word && *word & process_filter_bit(tgid);
}

static __always_inline void add_to_process_filter(void *filter, __u32 tgid)
{
	__u32 key;
	__u64 *word = process_filter_word(filter, tgid, &key);

	if (word)
		__sync_fetch_and_or(word, process_filter_bit(tgid));
}

static __always_inline void take_from_process_filter(void *filter, __u32 tgid)
{
	__u32 key;
	__u64 *word = process_filter_word(filter, tgid, &key);

	if (word)
		__sync_fetch_and_and(word, ~process_filter_bit(tgid));
}

#endif
