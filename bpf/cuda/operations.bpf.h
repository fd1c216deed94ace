/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The classes of operations (bpf/cuda/functions.h), each as the bits of a word. */
#ifndef GPUSNOOP_CUDA_OPERATIONS_BPF_H
#define GPUSNOOP_CUDA_OPERATIONS_BPF_H

#include "bpf/cuda/threads.bpf.h"

_Static_assert(CUDA_OPERATION_COUNT <= 64, "the operations of a class are bits of a word");

#define OPERATION(name, class) | (__u64)(CUDA_CLASS_##class == CUDA_CLASS_MEMORY) << CUDA_##name
static const __u64 memory_operations = 0 CUDA_OPERATIONS(OPERATION);
#undef OPERATION
#define OPERATION(name, class) | (__u64)(CUDA_CLASS_##class == CUDA_CLASS_CALL) << CUDA_##name
static const __u64 call_operations = 0 CUDA_OPERATIONS(OPERATION);
#undef OPERATION

#define OPERATION(name, class) | (__u64)(CUDA_CLASS_##class == CUDA_CLASS_GRAPH) << CUDA_##name
static const __u64 graph_operations = 0 CUDA_OPERATIONS(OPERATION);
#undef OPERATION
#define OPERATION(name, class) | (__u64)(CUDA_CLASS_##class == CUDA_CLASS_EVENT) << CUDA_##name
static const __u64 event_operations = 0 CUDA_OPERATIONS(OPERATION);
#undef OPERATION
#define OPERATION(name, class) | (__u64)(CUDA_CLASS_##class == CUDA_CLASS_PROFILER) << CUDA_##name
static const __u64 profiler_operations = 0 CUDA_OPERATIONS(OPERATION);
#undef OPERATION

static __always_inline bool is_operation_of(__u64 operations, __u64 cookie)
{
	return operations >> (CUDA_COOKIE_OPERATION(cookie) & 63) & 1;
}

static __always_inline bool is_one_of(__u64 operations, const struct call *call)
{
	return is_operation_of(operations, call->function);
}

#endif
