/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What programs change in graphs, and the launches of graphs. */
#ifndef GPUSNOOP_CUDA_GRAPHS_BPF_H
#define GPUSNOOP_CUDA_GRAPHS_BPF_H

#include "bpf/cuda/graphs/graph_contents.bpf.h"

/* Before CUDA 13, cudaGraphAddNode has no array of edge data in front of the number of
 * dependencies. A number is smaller than any address. */
#define LOWEST_ADDRESS 65536

static __always_inline __u64 where_parameters_are(const struct call *call)
{
	if (CUDA_COOKIE_OPERATION(call->function) == CUDA_ADD_NODE &&
	    CUDA_COOKIE_VARIANT(call->function) == CUDA_NODE_OF_ANY &&
	    !(call->function & CUDA_OF_DRIVER) && argument(call, CUDA_BYTES) < LOWEST_ADDRESS)
		return call->argument[6];
	return argument(call, CUDA_BYTES);
}

/* Offsets in cudaGraphNodeParams and CUgraphNodeParams, and the values of their `type`. */
#define ANY_PARAMETERS	    16
#define ANY_COPY_PARAMETERS 32

enum graph_node_type {
	NODE_TYPE_KERNEL = 0,
	NODE_TYPE_COPY = 1,
	NODE_TYPE_SET = 2,
	NODE_TYPE_CHILD = 4,
	NODE_TYPE_CONDITIONAL = 13,
};

#define DRIVER_KERNEL_HANDLE 56 /* CUDA_KERNEL_NODE_PARAMS.kern, where `func` is NULL */

enum words_of_set_node { /* cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS */
			 WORD_SET_DESTINATION = 0,
			 WORD_SET_ELEMENT = 2, /* the value, then the bytes of an element */
			 WORD_SET_WIDTH = 3,   /* in elements; then the height */
			 WORDS_OF_SET = 5,
};

static __always_inline long read_kernel_node(struct cuda_change_record *record,
					     struct thread *thread, const struct call *call)
{
	record->holds = CUDA_NODE_LAUNCH;
	if (bpf_probe_read_user(&record->detail.launch, sizeof(record->detail.launch),
				(const void *)(thread->where + sizeof(__u64))) ||
	    bpf_probe_read_user(&record->address, sizeof(__u64), (const void *)thread->where))
		return -1;
	if (record->address || !(call->function & CUDA_OF_DRIVER))
		return 0;
	return bpf_probe_read_user(&record->address, sizeof(__u64),
				   (const void *)(thread->where + DRIVER_KERNEL_HANDLE));
}

static __always_inline long read_set_node(struct cuda_change_record *record, struct thread *thread)
{
	__u64 *words = thread->words;

	record->holds = CUDA_NODE_SET;
	if (bpf_probe_read_user(words, WORDS_OF_SET * sizeof(__u64), (const void *)thread->where))
		return -1;
	record->address = words[WORD_SET_DESTINATION];
	record->detail.copy.bytes =
	    (words[WORD_SET_ELEMENT] >> 32) * words[WORD_SET_WIDTH] * words[WORD_SET_WIDTH + 1];
	return 0;
}

static __always_inline long read_copy_node(struct cuda_change_record *record, struct thread *thread,
					   const struct call *call)
{
	if (read_description(&thread->copy, thread,
			     call->function & CUDA_OF_DRIVER ? CUDA_COPY_DRIVER_3D : CUDA_COPY_3D,
			     thread->where))
		return -1;
	take_copy(record, thread, CUDA_NODE_COPY);
	return 0;
}

/* What is given as a destination, and at the next two positions. */
static __always_inline void read_copy_1d(struct cuda_change_record *record, const struct call *call)
{
	__u64 first = CUDA_COOKIE_SLOT(call->function, CUDA_BYTES);

	record->holds = CUDA_NODE_COPY;
	record->address = argument(call, CUDA_BYTES);
	record->detail.copy.source = call->argument[(first + 1) & (CALL_SLOTS - 1)];
	record->detail.copy.bytes = call->argument[(first + 2) & (CALL_SLOTS - 1)];
	record->detail.copy.kind = (__u32)argument(call, CUDA_KIND);
}

/* The type of a node of any type, and where its own parameters are. */
static __always_inline void find_own_parameters(struct thread *thread)
{
	thread->words[0] = ~0ULL;
	bpf_probe_read_user(thread->words, sizeof(__u64), (const void *)thread->where);
	thread->where += ANY_PARAMETERS;
	switch ((__u32)thread->words[0]) {
	case NODE_TYPE_KERNEL:
		thread->given = CUDA_NODE_OF_KERNEL;
		break;
	case NODE_TYPE_COPY:
		thread->where += ANY_COPY_PARAMETERS - ANY_PARAMETERS;
		thread->given = CUDA_NODE_OF_COPY;
		break;
	case NODE_TYPE_SET:
		thread->given = CUDA_NODE_OF_SET;
		break;
	case NODE_TYPE_CHILD:
		bpf_probe_read_user(thread->words, sizeof(__u64), (const void *)thread->where);
		thread->where = thread->words[0];
		thread->given = CUDA_NODE_OF_CHILD;
		break;
	case NODE_TYPE_CONDITIONAL:
		thread->given = CUDA_NODE_OF_CONDITION;
		break;
	default:
		thread->given = CUDA_NODE_OF_NOTHING;
	}
}

/* Before the record is reserved, as both at once would take too much stack. */
static __always_inline void find_parameters(struct thread *thread, const struct call *call)
{
	thread->given = CUDA_NODE_OF_NOTHING;
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_ADD_NODE:
	case CUDA_SET_NODE:
	case CUDA_SET_EXECUTABLE_NODE:
		thread->where = where_parameters_are(call);
		thread->given = CUDA_COOKIE_VARIANT(call->function);
		if (thread->given == CUDA_NODE_OF_ANY)
			find_own_parameters(thread);
	}
}

static __always_inline long read_node(struct cuda_change_record *record, struct thread *thread,
				      const struct call *call)
{
	switch (thread->given) {
	case CUDA_NODE_OF_KERNEL:
		return read_kernel_node(record, thread, call);
	case CUDA_NODE_OF_COPY:
		return read_copy_node(record, thread, call);
	case CUDA_NODE_OF_COPY_1D:
		read_copy_1d(record, call);
		break;
	case CUDA_NODE_OF_SET:
		return read_set_node(record, thread);
	case CUDA_NODE_OF_CHILD:
		record->holds = CUDA_NODE_GRAPH;
		record->address = thread->where;
		break;
	case CUDA_NODE_OF_CONDITION:
		record->holds = CUDA_NODE_UNKNOWN;
	}
	return 0;
}

/* The handles that the call gave to the program are read now. */
static __always_inline long fill_change(struct cuda_change_record *record, struct thread *thread,
					const struct call *call)
{
	record->handle = argument(call, CUDA_ADDRESS);
	record->node = argument(call, CUDA_SOURCE);
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_CREATE_GRAPH:
	case CUDA_CLONE_GRAPH:
	case CUDA_INSTANTIATE:
		return bpf_probe_read_user(&record->handle, sizeof(record->handle),
					   (const void *)argument(call, CUDA_ADDRESS));
	case CUDA_ADD_NODE:
		if (bpf_probe_read_user(&record->node, sizeof(record->node),
					(const void *)argument(call, CUDA_SOURCE)))
			return -1;
		break;
	case CUDA_ENABLE_NODE:
		record->address = (__u32)argument(call, CUDA_KIND);
	}
	return read_node(record, thread, call);
}

static __always_inline void send_graph_change(struct thread *thread, const struct call *call)
{
	struct cuda_change_record *record;

	find_parameters(thread, call);
	record = reserve_change(thread, call, CUDA_RECORD_CHANGE);
	if (record)
		send_change(thread, record, fill_change(record, thread, call));
}

static __always_inline void finish_change(struct thread *thread, const struct call *call)
{
	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_BEGIN_CAPTURE:
		begin_capture(thread, call);
		break;
	case CUDA_END_CAPTURE:
		end_capture(thread, call);
		break;
	default:
		send_graph_change(thread, call);
	}
}

static __always_inline void finish_graph(struct thread *thread, const struct call *call)
{
	struct cuda_graph_record *record;

	if (!RESERVE_CALL(thread, call, record, CUDA_RECORD_GRAPH))
		return;
	record->executable = argument(call, CUDA_ADDRESS);
	record->losses = graph_losses(thread);
	SUBMIT_CALL(record);
}

#endif
