/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What is captured into graphs, and when captures begin and end. The records of what a graph holds
 * go through the ring of allocations. */
#ifndef GPUSNOOP_CUDA_GRAPH_CONTENTS_BPF_H
#define GPUSNOOP_CUDA_GRAPH_CONTENTS_BPF_H

#include "bpf/cuda/graphs/captures.bpf.h"
#include "bpf/cuda/copies.bpf.h"
#include "bpf/cuda/calls.bpf.h"
#include "bpf/cuda/memory.bpf.h"

/* ---- streams and their captures ---- */

/* In the key: the default stream of the thread itself is a stream for each thread. */
#define STREAM_PER_THREAD 2
#define STREAM_DEFAULT	  0

static __always_inline void set_stream_key(struct thread *thread, const struct call *call,
					   __u64 stream)
{
	if (stream == STREAM_PER_THREAD ||
	    (stream == STREAM_DEFAULT && call->function & CUDA_PER_THREAD))
		set_key(thread, (__u32)bpf_get_current_pid_tgid(), CUDA_LIVE_THREAD_STREAMS);
	else
		set_key(thread, stream, CUDA_LIVE_STREAMS);
}

/* The capture that the stream or event at thread->key belongs to, if it lasts; else 0. */
static __always_inline __u64 lasting_capture(struct thread *thread)
{
	__u64 *found = bpf_map_lookup_elem(&cuda_capturing, &thread->key);

	if (!found)
		return 0;
	thread->words[0] = *found;
	thread->words[1] = thread->key.address;
	thread->words[2] = thread->key.space;
	set_key(thread, thread->words[0], CUDA_LIVE_CAPTURES);
	found = bpf_map_lookup_elem(&cuda_capturing, &thread->key);
	set_key(thread, thread->words[1], thread->words[2]);
	if (found)
		return thread->words[0];
	bpf_map_delete_elem(&cuda_capturing, &thread->key);
	return 0;
}

/* The word in which both launch configurations have the stream. */
#define CONFIGURED_STREAM 32

/* At the entry of any call, after its arguments were read: notes the capture that it is recorded
 * in. */
static __always_inline void note_capture(struct thread *thread, const struct call *call)
{
	__u64 *stream = thread->words;

	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_LAUNCH:
		*stream = call->argument[8];
		break;
	case CUDA_LAUNCH_DRIVER:
		*stream = call->argument[9];
		break;
	case CUDA_LAUNCH_CONFIG:
		if (bpf_probe_read_user(
			stream, sizeof(*stream),
			(const void *)(argument(call, CUDA_SOURCE) + CONFIGURED_STREAM)))
			return;
		break;
	default:
		if (!((call->function >> CUDA_STREAM) & (CALL_SLOTS - 1)))
			return;
		*stream = argument(call, CUDA_STREAM);
	}
	set_stream_key(thread, call, *stream);
	thread->capture = lasting_capture(thread);
}

/* ---- records ---- */

/* A record of what a graph holds was lost: from now on, it is unknown what all graphs of the
 * process hold. */
static __always_inline void count_lost_change(struct thread *thread)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);

	if (process)
		__sync_fetch_and_add(&process->graph_losses, 1);
}

static __always_inline __u64 graph_losses(struct thread *thread)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);

	return process ? process->graph_losses : 0;
}

static __always_inline struct cuda_change_record *
reserve_change(struct thread *thread, const struct call *call, enum cuda_record_type type)
{
	struct cuda_change_record *record =
	    bpf_ringbuf_reserve(&cuda_mem_events, sizeof(*record), 0);

	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		count_lost_change(thread);
		return NULL;
	}
	fill_call(&record->head, thread, call, type);
	record->handle = 0;
	record->node = 0;
	record->address = 0;
	__builtin_memset(&record->detail, 0, sizeof(record->detail));
	record->operation = CUDA_COOKIE_OPERATION(call->function);
	record->holds = CUDA_NODE_NOTHING;
	return record;
}

/* `error`: something that the record needs could not be read. */
static __always_inline void send_change(struct thread *thread, struct cuda_change_record *record,
					long error)
{
	if (error) {
		DISCARD(record);
		ACCOUNT(lost[LOST_fault], 1);
		count_lost_change(thread);
		return;
	}
	record->losses = graph_losses(thread);
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* ---- what is captured ---- */

/* From thread->copy. */
static __always_inline void take_copy(struct cuda_change_record *record,
				      const struct thread *thread, enum cuda_node node)
{
	record->holds = node;
	record->address = thread->copy.destination;
	record->detail.copy.source = thread->copy.source;
	record->detail.copy.bytes = thread->copy.bytes;
	record->detail.copy.kind = thread->copy.kind;
}

static __always_inline long fill_captured(struct cuda_change_record *record, struct thread *thread,
					  const struct call *call)
{
	long error = 0;

	switch (CUDA_COOKIE_OPERATION(call->function)) {
	case CUDA_LAUNCH:
	case CUDA_LAUNCH_CONFIG:
	case CUDA_LAUNCH_DRIVER:
		record->holds = CUDA_NODE_LAUNCH;
		record->address = argument(call, CUDA_ADDRESS);
		return read_shape(record->detail.launch.grid, call);
	case CUDA_COPY:
		/* No CUDA up to 13 captures a batch. Of one that does, it would be unknown what its
		 * graphs hold. */
		if (CUDA_IS_BATCH(call->function))
			return -1;
		fill_copy(&thread->copy, call);
		take_copy(record, thread, CUDA_NODE_COPY);
		break;
	case CUDA_COPY_3D:
	case CUDA_COPY_3D_PEER:
	case CUDA_COPY_DRIVER_2D:
	case CUDA_COPY_DRIVER_3D:
		error = fill_described_copy(&thread->copy, thread, call);
		take_copy(record, thread, CUDA_NODE_COPY);
		break;
	case CUDA_SET:
	case CUDA_SET_3D:
		fill_set(&thread->copy, call);
		take_copy(record, thread, CUDA_NODE_SET);
		break;
	case CUDA_ALLOCATE:
	case CUDA_ALLOCATE_FROM_POOL:
		error = read_allocated(thread, call);
		record->holds = CUDA_NODE_ALLOCATE;
		record->address = thread->key.address;
		record->detail.copy.bytes = thread->live.bytes;
		break;
	case CUDA_FREE:
		record->holds = CUDA_NODE_FREE;
		record->address = argument(call, CUDA_ADDRESS);
		break;
	case CUDA_LAUNCH_GRAPH:
		record->holds = CUDA_NODE_GRAPH;
		record->address = argument(call, CUDA_ADDRESS);
		break;
	}
	return error;
}

/* A call on a capturing stream has succeeded: it did nothing yet. */
static __always_inline void finish_captured(struct thread *thread, const struct call *call)
{
	struct cuda_change_record *record = reserve_change(thread, call, CUDA_RECORD_CAPTURED);

	if (!record)
		return;
	record->handle = thread->capture;
	send_change(thread, record, fill_captured(record, thread, call));
}

/* ---- begin and end of captures, and the streams that join ---- */

/* Adds a capture on the stream of the call. False: there is no room. */
static __always_inline bool add_capture(struct thread *thread, const struct call *call,
					struct cuda_captures *captures,
					struct cuda_live_process *process)
{
	thread->capture = __sync_fetch_and_add(&captures->last_number, 1) + 1;
	set_key(thread, thread->capture, CUDA_LIVE_CAPTURES);
	thread->words[0] = argument(call, CUDA_STREAM);
	if (!set_capturing(thread, thread->words))
		return false;
	set_stream_key(thread, call, argument(call, CUDA_STREAM));
	if (!set_capturing(thread, &thread->capture)) {
		set_key(thread, thread->capture, CUDA_LIVE_CAPTURES);
		bpf_map_delete_elem(&cuda_capturing, &thread->key);
		return false;
	}
	__sync_fetch_and_add(&process->captures, 1);
	__sync_fetch_and_add(&captures->lasting, 1);
	return true;
}

static __always_inline void begin_capture(struct thread *thread, const struct call *call)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);
	struct cuda_captures *captures = all_captures();
	struct cuda_change_record *record;

	if (!process || !captures || !add_capture(thread, call, captures, process)) {
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	record = reserve_change(thread, call, CUDA_RECORD_CHANGE);
	if (!record)
		return;
	record->handle = thread->capture;
	record->node = argument(call, CUDA_ADDRESS);
	send_change(thread, record, 0);
}

/* The capture in thread->capture, which began on the stream of this call, is over. */
static __always_inline void remove_capture(struct thread *thread, const struct call *call)
{
	struct cuda_live_process *process;
	bool is_first;

	set_key(thread, thread->capture, CUDA_LIVE_CAPTURES);
	is_first = !bpf_map_delete_elem(&cuda_capturing, &thread->key);
	set_stream_key(thread, call, argument(call, CUDA_STREAM));
	bpf_map_delete_elem(&cuda_capturing, &thread->key);
	process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);
	if (is_first && process) {
		__sync_fetch_and_sub(&process->captures, 1);
		forget_captures(1);
	}
}

/* With the error if the capture came to nothing. */
static __always_inline void end_capture(struct thread *thread, const struct call *call)
{
	struct cuda_change_record *record;
	long error = 0;

	if (thread->capture)
		remove_capture(thread, call);
	record = reserve_change(thread, call, CUDA_RECORD_CHANGE);
	if (!record)
		return;
	record->handle = thread->capture;
	if (!thread->result)
		error = bpf_probe_read_user(&record->node, sizeof(record->node),
					    (const void *)argument(call, CUDA_ADDRESS));
	send_change(thread, record, error);
}

/* cudaErrorStreamCapture... and CUDA_ERROR_STREAM_CAPTURE_... have the same values. */
#define CAPTURE_ERRORS	     900
#define CAPTURE_UNMATCHED    903 /* it is another stream that the capture began on */
#define CAPTURE_WRONG_THREAD 908 /* the last one */

/* Has a call about a capture or a graph changed something? An end that failed can be the end of the
 * capture all the same, without a graph. */
static __always_inline bool has_effect(const struct thread *thread, const struct call *call)
{
	__s32 error = thread->result;

	if (CUDA_COOKIE_OPERATION(call->function) != CUDA_END_CAPTURE || !thread->capture)
		return !error;
	return !error || (error >= CAPTURE_ERRORS && error < CAPTURE_WRONG_THREAD &&
			  error != CAPTURE_UNMATCHED);
}

/* A stream that goes takes its capture along. Of a stream that only joined it, the handle may be
 * given again. */
static __always_inline void finish_destroy_stream(struct thread *thread, const struct call *call)
{
	__u64 *origin;

	set_key(thread, thread->capture, CUDA_LIVE_CAPTURES);
	origin = bpf_map_lookup_elem(&cuda_capturing, &thread->key);
	if (origin && *origin == argument(call, CUDA_STREAM)) {
		remove_capture(thread, call);
		return;
	}
	set_stream_key(thread, call, argument(call, CUDA_STREAM));
	bpf_map_delete_elem(&cuda_capturing, &thread->key);
}

/* cudaEventRecordExternal, cudaEventWaitExternal: the event is a node of the graph, and joins
 * nothing to the capture. */
#define EVENT_IS_EXTERNAL 1

/* An event that is recorded in a capture takes other streams into it, until it is recorded outside.
 * False: there is no room to note that. */
static __always_inline bool note_event(struct thread *thread, const struct call *call)
{
	if (thread->result || argument(call, CUDA_BYTES) & EVENT_IS_EXTERNAL)
		return true;
	if (CUDA_COOKIE_OPERATION(call->function) == CUDA_DESTROY_STREAM) {
		if (thread->capture)
			finish_destroy_stream(thread, call);
		return true;
	}
	set_key(thread, argument(call, CUDA_ADDRESS), CUDA_LIVE_EVENTS);
	if (CUDA_COOKIE_OPERATION(call->function) == CUDA_WAIT_EVENT) {
		if (thread->capture)
			return true;
		thread->capture = lasting_capture(thread);
		if (!thread->capture)
			return true;
		set_stream_key(thread, call, argument(call, CUDA_STREAM));
	}
	if (thread->capture)
		return set_capturing(thread, &thread->capture);
	bpf_map_delete_elem(&cuda_capturing, &thread->key);
	return true;
}

/* These calls are made often, and are of interest only while a stream captures. They send nothing.
 */
static __always_inline void finish_event(struct thread *thread, const struct call *call)
{
	if (note_event(thread, call))
		ACCOUNT(events, 1);
	else
		ACCOUNT(lost[LOST_table_full], 1);
}

#endif
