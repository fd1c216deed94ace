/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The captures of streams: which streams record their work into a graph instead of running it. A
 * capture begins on one stream; other streams join it when they wait for an event that was recorded
 * in it. */
#ifndef GPUSNOOP_CUDA_CAPTURES_BPF_H
#define GPUSNOOP_CUDA_CAPTURES_BPF_H

#include "bpf/cuda/threads.bpf.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"

ARRAY_MAP(cuda_captures, 1, struct cuda_captures);

/* Streams and events to the numbers of captures. Those of an ended capture are void; a program that
 * finds one deletes it, and the exporter deletes others where there are many, and those of ended
 * processes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CUDA_MAX_CAPTURING);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* cleared where the kernel cannot (before 6.1) */
	__type(key, struct cuda_live_key);
	__type(value, __u64);
} cuda_capturing SEC(".maps");

/* Never NULL, as in lib/emit.bpf.h. */
static __always_inline struct cuda_captures *all_captures(void)
{
	return bpf_map_lookup_elem(&cuda_captures, (const void *)&account_key);
}

/* Does any stream of any process capture? */
static __always_inline bool is_capturing(void)
{
	struct cuda_captures *captures = all_captures();

	return captures && *(volatile __u64 *)&captures->lasting;
}

/* Adds or changes the entry at thread->key. Interrupts refill the kernel's allocator a moment after
 * it has run low. */
#define CAPTURING_TRIES 4

static __always_inline bool set_capturing(struct thread *thread, const __u64 *value)
{
	for (int i = 0; i < CAPTURING_TRIES; i++)
		if (!bpf_map_update_elem(&cuda_capturing, &thread->key, value, BPF_ANY))
			return true;
	return false;
}

/* The process that had these captures has ended. */
static __always_inline void forget_captures(__u64 count)
{
	struct cuda_captures *captures = all_captures();

	if (captures && count)
		__sync_fetch_and_sub(&captures->lasting, count);
}

#endif
