/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The heap of one process, whose allocator's functions are attached to: what it has allocated and
 * not freed, by stack. */
#ifndef GPUSNOOP_PROFILE_HEAP_BPF_H
#define GPUSNOOP_PROFILE_HEAP_BPF_H

#include "bpf/lib/maps.bpf.h"

/* Set before load. */
const volatile __u64 heap_min_bytes = 0; /* smaller allocations are left out */

/* At the end: the tables stay as they are, while the programs are detached one by one. */
volatile bool heap_is_over = false;

struct heap_block {
	struct profile_key key;
	__u64 bytes;
};

/* Of a thread, as programs at functions can be preempted: the call that it is inside of. */
struct heap_thread {
	struct scratch scratch;
	struct heap_block block;
	__u64 bytes;	/* that it asks for */
	__u64 result;	/* of posix_memalign(): where it writes the address; else 0 */
	__u64 replaced; /* by realloc(): the address of `block`, which is not freed if the call
			   fails */
	__u32 depth;
};

THREAD_MAP(prof_in_malloc, struct heap_thread);

/* By address. The exporter makes room for the type heap only. */
ON_DEMAND_MAP(prof_blocks, 1, __u64, struct heap_block);

static __always_inline void change(const struct heap_block *block, __s64 samples, __u64 bytes)
{
	struct profile_count *counts = bpf_map_lookup_elem(&prof_counts, &block->key);

	if (counts) {
		__sync_fetch_and_add(&counts->samples, samples);
		__sync_fetch_and_add(&counts->amount, bytes);
	}
}

static __always_inline void frees(__u64 address)
{
	struct heap_block *block = bpf_map_lookup_elem(&prof_blocks, &address);

	if (block && !heap_is_over) {
		change(block, -1, -block->bytes);
		bpf_map_delete_elem(&prof_blocks, &address);
	}
}

/* NULL: inside of another call, as of glibc's realloc(), whose it is. */
static __always_inline struct heap_thread *begins(__u64 bytes, __u64 result)
{
	struct heap_thread *thread = bpf_task_storage_get(
	    &prof_in_malloc, bpf_get_current_task_btf(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread) {
		ACCOUNT(lost[LOST_table_full], 1);
		return NULL;
	}
	if (thread->depth++)
		return NULL;
	thread->bytes = bytes;
	thread->result = result;
	thread->replaced = 0;
	return thread;
}

/* The block is free before the call returns, and may be another thread's then. */
static __always_inline int begins_again(__u64 address, __u64 bytes)
{
	struct heap_thread *thread = begins(bytes, 0);
	struct heap_block *block = bpf_map_lookup_elem(&prof_blocks, &address);

	if (thread && block) {
		thread->replaced = address;
		thread->block = *block;
		frees(address);
	}
	return 0;
}

SEC("uprobe")
int BPF_UPROBE(prof_malloc, __u64 bytes)
{
	begins(bytes, 0);
	return 0;
}

SEC("uprobe")
int BPF_UPROBE(prof_calloc, __u64 count, __u64 bytes)
{
	begins(count * bytes, 0);
	return 0;
}

SEC("uprobe")
int BPF_UPROBE(prof_memalign, __u64 alignment, __u64 bytes)
{
	begins(bytes, 0);
	return 0;
}

SEC("uprobe")
int BPF_UPROBE(prof_posix, __u64 result, __u64 alignment, __u64 bytes)
{
	begins(bytes, result);
	return 0;
}

SEC("uprobe")
int BPF_UPROBE(prof_realloc, __u64 address, __u64 bytes)
{
	return begins_again(address, bytes);
}

SEC("uprobe")
int BPF_UPROBE(prof_free, __u64 address)
{
	if (address)
		frees(address);
	return 0;
}

/* At the return, when the callers' frames are all that there are: at the entry, the kernel misses
 * the caller before Linux 6.11. */
SEC("uretprobe")
int BPF_URETPROBE(prof_allocated, __u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct heap_thread *thread = bpf_task_storage_get(&prof_in_malloc, task, NULL, 0);
	struct heap_block *block;
	bool is_new;

	if (!thread || !thread->depth || --thread->depth || heap_is_over)
		return 0;
	if (thread->result && (address || bpf_probe_read_user(&address, sizeof(address),
							      (const void *)thread->result)))
		return 0;
	block = &thread->block;
	is_new = address != 0;
	if (!address && thread->replaced && thread->bytes) {
		address = thread->replaced; /* realloc() has failed, and the block stays */
	} else {
		if (!address || thread->bytes < heap_min_bytes ||
		    !fill_key(&thread->scratch, task, ctx, false))
			return 0;
		ACCOUNT(entered, 1);
		block->key = thread->scratch.off.key;
		block->bytes = thread->bytes;
	}
	frees(address); /* if the end of another block there was not seen */
	if (bpf_map_update_elem(&prof_blocks, &address, block, BPF_ANY))
		ACCOUNT(lost[LOST_table_full], 1);
	else if (is_new)
		count(&block->key, block->bytes);
	else
		change(block, 1, block->bytes);
	return 0;
}

#endif
