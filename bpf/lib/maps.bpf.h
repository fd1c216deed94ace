/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The kinds of maps that the programs have, each with all that maps of its kind have in common. The
 * exporter sets other sizes of some before it loads them. */
#ifndef GPUSNOOP_MAPS_BPF_H
#define GPUSNOOP_MAPS_BPF_H

#include <bpf/bpf_helpers.h>

#define MAP_OF_KIND(name, kind, flags, entries, key_type, value_type)                              \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_##kind);                                                 \
		__uint(map_flags, flags);                                                          \
		__uint(max_entries, entries);                                                      \
		__type(key, key_type);                                                             \
		__type(value, value_type);                                                         \
	} name SEC(".maps")

#define HASH_MAP(name, entries, key_type, value_type)                                              \
	MAP_OF_KIND(name, HASH, 0, entries, key_type, value_type)
/* Its entries take memory while they are there. */
#define ON_DEMAND_MAP(name, entries, key_type, value_type)                                         \
	MAP_OF_KIND(name, HASH, BPF_F_NO_PREALLOC, entries, key_type, value_type)
#define LRU_MAP(name, entries, key_type, value_type)                                               \
	MAP_OF_KIND(name, LRU_HASH, 0, entries, key_type, value_type)
#define ARRAY_MAP(name, entries, value_type) MAP_OF_KIND(name, ARRAY, 0, entries, __u32, value_type)
#define PERCPU_MAP(name, entries, value_type)                                                      \
	MAP_OF_KIND(name, PERCPU_ARRAY, 0, entries, __u32, value_type)
/* A value for each thread that has one, until the thread ends. */
#define THREAD_MAP(name, value_type)                                                               \
	MAP_OF_KIND(name, TASK_STORAGE, BPF_F_NO_PREALLOC, 0, int, value_type)

#define RING_MAP(name, bytes)                                                                      \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_RINGBUF);                                                \
		__uint(max_entries, bytes);                                                        \
	} name SEC(".maps")
#define STACK_MAP(name, entries, frames)                                                           \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_STACK_TRACE);                                            \
		__uint(max_entries, entries);                                                      \
		__uint(key_size, sizeof(__u32));                                                   \
		__uint(value_size, (frames) * sizeof(__u64));                                      \
	} name SEC(".maps")

#endif
