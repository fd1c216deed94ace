/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Batches: many copies by one call, which arrays in the program's memory describe. The exporter
 * gets their pointers and sizes as they are, and finds their directions. */
#ifndef GPUSNOOP_CUDA_BATCHES_BPF_H
#define GPUSNOOP_CUDA_BATCHES_BPF_H

#include "bpf/cuda/calls.bpf.h"

/* In thread->words: where the next copies are described, how many are left, and what all their
 * records say. */
enum batch_word {
	BATCH_DESTINATIONS, /* or the structures */
	BATCH_SOURCES,
	BATCH_SIZES,
	BATCH_IS_3D,
	BATCH_LEFT,
	BATCH_STREAM,
	BATCH_DURATION, /* of the first record */
};

/* Every batch has a stream as its last argument. */
static __always_inline __u64 batch_stream(const struct thread *thread, const struct call *call)
{
	__u64 at = CUDA_COOKIE_SLOT(call->function, CUDA_STREAM);

	if (!(call->function & CUDA_OF_DRIVER) &&
	    CUDA_COOKIE_VARIANT(thread->nested) & CUDA_BATCH_FAIL_INDEX)
		at++;
	return call->argument[at & (CALL_SLOTS - 1)];
}

/* Takes more calls from the process's budget, as many as the batch has copies. This batch is
 * recorded all the same. */
static __always_inline void charge_batch(struct thread *thread, __u64 copies)
{
	struct cuda_live_process *process;

	if (!max_calls_per_second)
		return;
	process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);
	if (process)
		__sync_fetch_and_add(&process->budget.window_calls, copies);
}

static __always_inline bool read_words(__u64 *to, __u64 *from, __u32 bytes)
{
	if (bpf_probe_read_user(to, bytes, (const void *)*from))
		return false;
	*from += bytes;
	return true;
}

/* How many copies it read; 0: it could not. */
static __always_inline __u32 read_batch(struct cuda_batch_record *record, __u64 *part)
{
	__u64 copies = *(volatile __u64 *)&part[BATCH_LEFT];

	if (copies > CUDA_BATCH_COPIES)
		copies = CUDA_BATCH_COPIES;
	if (!read_words(record->words, &part[BATCH_DESTINATIONS], copies * sizeof(__u64)) ||
	    !read_words(&record->words[CUDA_BATCH_COPIES], &part[BATCH_SOURCES],
			copies * sizeof(__u64)) ||
	    !read_words(&record->words[2 * CUDA_BATCH_COPIES], &part[BATCH_SIZES],
			copies * sizeof(__u64)))
		return 0;
	return copies;
}

static __always_inline __u32 read_batch_3d(struct cuda_batch_record *record, __u64 *part)
{
	__u64 copies = *(volatile __u64 *)&part[BATCH_LEFT];

	if (copies > CUDA_BATCH_3D_COPIES)
		copies = CUDA_BATCH_3D_COPIES;
	if (!read_words(record->words, &part[BATCH_DESTINATIONS],
			copies * CUDA_BATCH_3D_WORDS * sizeof(__u64)))
		return 0;
	return copies;
}

/* Sends the next copies of a batch. False: these and the rest are lost, which is counted. */
static __always_inline bool send_copies(struct thread *thread, const struct call *call)
{
	__u64 *part = thread->words;
	struct cuda_batch_record *record;
	__u32 copies;

	if (!RESERVE_CALL(thread, call, record, CUDA_RECORD_BATCH))
		return false;
	record->head.duration_ns = part[BATCH_DURATION];
	record->stream = part[BATCH_STREAM];
	record->is_3d = *(volatile __u64 *)&part[BATCH_IS_3D];
	copies = record->is_3d ? read_batch_3d(record, part) : read_batch(record, part);
	if (!copies) {
		DISCARD_CALL(record);
		return false;
	}
	record->copies = copies;
	SUBMIT(record);
	part[BATCH_DURATION] = 0;
	part[BATCH_LEFT] -= copies;
	return true;
}

/* A call counts as one event if all its records are in the ring, else as lost: as throttled if it
 * has more copies than one call may record. The kinds of batches share the loop, as the verifier
 * goes through each of its turns. */
static __always_inline void send_batch(struct thread *thread, const struct call *call)
{
	__u64 *part = thread->words;

	for (int i = 0; i < CUDA_MAX_BATCH_RECORDS; i++) {
		if (!*(volatile __u64 *)&part[BATCH_LEFT])
			break;
		if (!send_copies(thread, call))
			return;
	}
	if (part[BATCH_LEFT])
		ACCOUNT(lost[LOST_throttled], 1);
	else
		ACCOUNT(events, 1);
}

static __always_inline void finish_batch(struct thread *thread, const struct call *call)
{
	__u64 *part = thread->words;
	bool is_3d =
	    (CUDA_COOKIE_VARIANT(call->function) & ~CUDA_BATCH_FAIL_INDEX) == CUDA_BATCH_3D;
	__u64 in_record = is_3d ? CUDA_BATCH_3D_COPIES : CUDA_BATCH_COPIES;
	__u64 copies = argument(call, CUDA_COUNT);

	part[BATCH_DESTINATIONS] = argument(call, CUDA_ADDRESS);
	part[BATCH_SOURCES] = argument(call, CUDA_SOURCE);
	part[BATCH_SIZES] = argument(call, CUDA_BYTES);
	part[BATCH_IS_3D] = is_3d;
	part[BATCH_LEFT] = copies;
	part[BATCH_STREAM] = batch_stream(thread, call);
	part[BATCH_DURATION] = thread->ended_ns - call->started_ns;
	if (copies > CUDA_MAX_BATCH_RECORDS * in_record)
		copies = CUDA_MAX_BATCH_RECORDS * in_record;
	charge_batch(thread, copies);
	add_cuda_cost(thread, costs.record * ((copies + in_record - 1) / in_record));
	send_batch(thread, call);
}

#endif
