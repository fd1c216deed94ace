/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The table of launches that are only counted, by kernel and shape. */
#ifndef GPUSNOOP_CUDA_COUNTED_LAUNCHES_TABLE_BPF_H
#define GPUSNOOP_CUDA_COUNTED_LAUNCHES_TABLE_BPF_H

#include "bpf/cuda/process.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CUDA_MAX_COUNTED);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* cleared where the kernel cannot (before 6.1) */
	__type(key, struct cuda_launch_key);
	__type(value, struct cuda_launch_count);
} cuda_launches SEC(".maps");

/* The table has, or has had, an entry. */
bool has_counted;

/* How often any process has unloaded kernels. */
__u64 unloads;

/* Calls after which handles of kernels can stand for others. */
static __always_inline bool ends_kernels(__u8 operation)
{
	return operation == CUDA_UNLOAD || operation == CUDA_RESET ||
	       operation == CUDA_RESET_DEVICE || operation == CUDA_DESTROY_CONTEXT;
}

/* Such a call begins. */
static __always_inline void begin_epoch(struct thread *thread)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);

	if (!process)
		return;
	__sync_fetch_and_add(&process->epoch, 1);
	__sync_fetch_and_add(&unloads, 1);
}

static __always_inline void read_epoch(struct thread *thread)
{
	__u64 now = *(volatile __u64 *)&unloads;
	const struct cuda_live_process *process;

	if (thread->unloads == now)
		return;
	process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);
	thread->launch.epoch = process ? process->epoch : 0;
	thread->unloads = now;
}

static __always_inline struct cuda_launch_count *add_launch_count(struct thread *thread)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);
	struct cuda_launch_count *fresh = (struct cuda_launch_count *)thread->words;

	if (!process || __sync_fetch_and_add(&process->counted, 1) >= CUDA_MAX_COUNTED_OF_PROCESS) {
		thread->launch.kernel = 0;
		__builtin_memset(thread->launch.grid, 0, sizeof(thread->launch.grid));
		__builtin_memset(thread->launch.block, 0, sizeof(thread->launch.block));
	}
	has_counted = true;
	fresh->launches = 0;
	fresh->first_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&cuda_launches, &thread->launch, fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&cuda_launches, &thread->launch);
}

/* The launch in thread->launch: its kernel and its shape. False: the table has no room. */
static __always_inline bool count_launch(struct thread *thread)
{
	struct cuda_launch_count *count;

	thread->launch.since_ns = thread->since_ns;
	thread->launch.tgid = thread->tgid;
	thread->launch.device = thread->chosen.ordinal_plus_1 - 1;
	read_epoch(thread);
	count = bpf_map_lookup_elem(&cuda_launches, &thread->launch);
	if (!count)
		count = add_launch_count(thread);
	if (!count)
		return false;
	__sync_fetch_and_add(&count->launches, 1);
	note_launch(thread);
	return true;
}

#endif
