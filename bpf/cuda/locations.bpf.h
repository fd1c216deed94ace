/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Where memory is, if the call names the place itself and not the thread's device. */
#ifndef GPUSNOOP_CUDA_LOCATIONS_BPF_H
#define GPUSNOOP_CUDA_LOCATIONS_BPF_H

#include "bpf/cuda/process.bpf.h"
#include "bpf/lib/maps.bpf.h"

/* CUmemLocationType and cudaMemLocationType */
enum location_type {
	LOCATION_DEVICE = 1,
	LOCATION_HOST = 2,
	LOCATION_HOST_NUMA = 3,
	LOCATION_HOST_NUMA_CURRENT = 4,
};

/* In CUmemAllocationProp, CUmemPoolProps and cudaMemPoolProps. */
#define LOCATION_OFFSET 8

struct location {
	__s32 device; /* ordinal, or CUDA_DEVICE_... */
	__u32 is_host;
};

struct stream_place {
	__u64 context; /* 0: the device's primary one */
	__s32 device;  /* as in struct location */
	__u32 reserved;
};

/* The memory pools of programs. Newer entries replace the oldest: the device of an older pool is
 * then unknown. */
LRU_MAP(cuda_pools, 2048, struct cuda_live_key, struct location);

/* The streams of programs. Newer entries replace the oldest. */
LRU_MAP(cuda_streams, 8192, struct cuda_live_key, struct stream_place);

/* `place` is a CUmemLocation or cudaMemLocation: the type, then the device. Host memory belongs to
 * no device, so it counts for the one of the thread, as pinned memory does. */
static __always_inline void read_location(struct location *location, struct thread *thread,
					  __u64 place)
{
	__u64 word = 0; /* on the stack: the kernel checks what is copied to its heap */

	location->device = CUDA_DEVICE_UNKNOWN;
	location->is_host = 0;
	bpf_probe_read_user(&word, sizeof(word), (const void *)place);
	switch ((__u32)word) {
	case LOCATION_DEVICE:
		if ((__s32)(word >> 32) >= 0)
			location->device = word >> 32;
		break;
	case LOCATION_HOST:
	case LOCATION_HOST_NUMA:
	case LOCATION_HOST_NUMA_CURRENT:
		location->device = thread->chosen.ordinal_plus_1 - 1;
		location->is_host = 1;
	}
}

/* The location of a pool that the program got, from its properties or of a device. */
static __always_inline void learn_pool(struct thread *thread, const struct call *call)
{
	struct location *location = (struct location *)thread->words;

	set_key(thread, 0, CUDA_LIVE_POOLS);
	if (bpf_probe_read_user(&thread->key.address, sizeof(__u64),
				(const void *)argument(call, CUDA_ADDRESS)))
		return;
	switch (CUDA_COOKIE_VARIANT(call->function)) {
	case CUDA_POOL_OF_PROPERTIES:
		read_location(location, thread, argument(call, CUDA_SOURCE) + LOCATION_OFFSET);
		break;
	case CUDA_POOL_OF_LOCATION:
		read_location(location, thread, argument(call, CUDA_SOURCE));
		break;
	default:
		location->device = argument(call, CUDA_SOURCE);
		location->is_host = 0;
	}
	bpf_map_update_elem(&cuda_pools, &thread->key, location, BPF_ANY);
}

static __always_inline void forget_pool(struct thread *thread, const struct call *call)
{
	set_key(thread, argument(call, CUDA_ADDRESS), CUDA_LIVE_POOLS);
	bpf_map_delete_elem(&cuda_pools, &thread->key);
}

static __always_inline void learn_stream(struct thread *thread, const struct call *call)
{
	struct stream_place *place = (struct stream_place *)thread->words;

	set_key(thread, 0, CUDA_LIVE_PLACES);
	if (bpf_probe_read_user(&thread->key.address, sizeof(__u64),
				(const void *)argument(call, CUDA_ADDRESS)))
		return;
	place->context = 0;
	place->device = CUDA_DEVICE_UNKNOWN;
	place->reserved = 0;
	if (CUDA_COOKIE_VARIANT(call->function) == CUDA_STREAM_OF_THREAD) {
		place->context = thread->chosen.context;
		place->device = thread->chosen.ordinal_plus_1 - 1;
	}
	bpf_map_update_elem(&cuda_streams, &thread->key, place, BPF_ANY);
}

/* 0 is the default stream, 1 the legacy one, 2 the thread's own: all are on the thread's device. */
#define MAX_DEFAULT_STREAM 2

/* Memory that a stream orders is on the stream's device, which need not be the thread's. A stream
 * that was not seen being made is assumed to be on the thread's device. */
static __always_inline void locate_by_stream(struct location *location, struct thread *thread,
					     const struct call *call)
{
	struct stream_place *place;

	if (argument(call, CUDA_STREAM) <= MAX_DEFAULT_STREAM || !argument(call, CUDA_BYTES))
		return;
	set_key(thread, argument(call, CUDA_STREAM), CUDA_LIVE_PLACES);
	place = bpf_map_lookup_elem(&cuda_streams, &thread->key);
	if (!place)
		return;
	location->device = place->device;
	thread->live.context = place->context;
}

/* Of an allocation: where it is, into thread->live. */
static __always_inline void locate(struct thread *thread, const struct call *call)
{
	struct location *location = (struct location *)thread->words;
	struct location *found;

	location->device = thread->chosen.ordinal_plus_1 - 1;
	location->is_host = 0;
	thread->live.context = thread->chosen.context;
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_ALLOCATE:
		if (CUDA_COOKIE_SLOT(call->function, CUDA_STREAM))
			locate_by_stream(location, thread, call);
		break;
	case CUDA_ALLOCATE_AT:
		read_location(location, thread, argument(call, CUDA_SOURCE) + LOCATION_OFFSET);
		break;
	case CUDA_ALLOCATE_FROM_POOL:
		set_key(thread, argument(call, CUDA_SOURCE), CUDA_LIVE_POOLS);
		found = bpf_map_lookup_elem(&cuda_pools, &thread->key);
		location->device = found ? found->device : CUDA_DEVICE_UNKNOWN;
		location->is_host = found && found->is_host;
	}
	thread->live.device = location->device;
	thread->live.kind = CUDA_COOKIE_VARIANT(call->function);
	if (location->is_host)
		thread->live.kind =
		    thread->live.kind == MEMORY_vmm ? MEMORY_vmm_host : MEMORY_pinned_host;
}

#endif
