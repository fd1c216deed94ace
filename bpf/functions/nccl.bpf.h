/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which communicator a call of NCCL makes: the hash of its unique id, and its handle. */
#ifndef GPUSNOOP_FUNC_NCCL_BPF_H
#define GPUSNOOP_FUNC_NCCL_BPF_H

#include "bpf/functions/maps.bpf.h"

/* Reads at the entry, as the function may change what it got by value. The hash is 64 bits of
 * FNV-1a, which docs/functions.md names: it must stay the same. 0: the id could not be read. */
static __always_inline void read_unique_id(struct thread *thread, struct call *call,
					   struct pt_regs *regs)
{
	const void *id = (const void *)call->argument[5];
	__u64 hash = 0xcbf29ce484222325;

	if (call->function & FUNC_ID_BY_VALUE) {
#if defined(__TARGET_ARCH_x86)
		id = (const void *)(CALL_SP(regs) + 8);
#else
		id = (const void *)call->argument[3];
#endif
	}
	call->argument[7] = 0;
	if (bpf_probe_read_user(thread->unique_id, sizeof(thread->unique_id), id))
		return;
	for (int i = 0; i < FUNC_UNIQUE_ID_BYTES; i++)
		hash = (hash ^ thread->unique_id[i]) * 0x100000001b3;
	call->argument[7] = hash;
}

/* These records share the ring of slow calls, which is read first: a slow call, or a call that uses
 * a new handle, may be in either. */
static __always_inline void fill_words_head(struct func_words_record *record,
					    const struct thread *thread, __u64 address,
					    enum func_words kind)
{
	record->head.ended_ns = thread->ended_ns;
	record->head.since_ns = thread->since_ns;
	record->head.tgid = thread->tgid;
	record->head.type = FUNC_RECORD_WORDS;
	record->address = address;
	record->tid = thread->tid;
	record->kind = kind;
	for (int i = 0; i < FUNC_WORDS; i++)
		record->word[i] = 0;
}

/* Sends the handle at `*awaited` if it has been written. Without room it waits for the next call.
 */
static __always_inline void send_awaited_one(struct thread *thread, __u64 *awaited)
{
	struct func_words_record *record;

	if (!*awaited ||
	    bpf_probe_read_user(&thread->word, sizeof(thread->word), (const void *)*awaited) ||
	    !thread->word)
		return;
	record = bpf_ringbuf_reserve(&func_slow, sizeof(*record), 0);
	if (!record)
		return;
	fill_words_head(record, thread, *awaited, FUNC_WORDS_AWAITED);
	record->word[0] = thread->word;
	SUBMIT(record);
	*awaited = 0;
	thread->awaited_count--;
}

static __always_inline void send_awaited(struct thread *thread)
{
	for (int i = 0; i < FUNC_AWAITED; i++) {
		barrier_var(thread);
		send_awaited_one(thread, &thread->awaited[i]);
	}
}

/* In a group of calls, and of a communicator that does not block, NCCL writes the handle after the
 * call has returned. */
static __always_inline void await_handle(struct thread *thread, __u64 address)
{
	__u32 free = FUNC_AWAITED;

	for (__u32 i = 0; i < FUNC_AWAITED; i++) {
		if (thread->awaited[i] == address)
			return;
		if (!thread->awaited[i])
			free = i;
	}
	if (free < FUNC_AWAITED)
		thread->awaited_count++;
	else
		free = thread->awaited_last++;
	thread->awaited[free & (FUNC_AWAITED - 1)] = address;
}

/* Sends the first thread->bytes of the words at thread->pointer. */
static __always_inline void send_words(struct thread *thread)
{
	struct func_words_record *record;

	record = bpf_ringbuf_reserve(&func_slow, sizeof(*record), 0);
	if (!record)
		return;
	fill_words_head(record, thread, thread->pointer, FUNC_WORDS_ARRAY);
	bpf_probe_read_user(record->word,
			    thread->bytes < sizeof(record->word) ? thread->bytes
								 : sizeof(record->word),
			    (const void *)thread->pointer);
	SUBMIT(record);
}

#define NCCL_SUCCESS	 0
#define NCCL_IN_PROGRESS 7
#define NCCL_NO_COLOR	 -1

/* A call that makes communicators returned thread->word. */
static __always_inline void look_at_handles(struct thread *thread, const struct call *call)
{
	if ((__u32)thread->word != NCCL_SUCCESS && (__u32)thread->word != NCCL_IN_PROGRESS)
		return;
	if (*(volatile __u32 *)&thread->flags & FUNC_SENDS_WORDS) {
		thread->pointer = call->argument[1];
		thread->bytes = (__u64)(__u32)call->argument[2] * 8;
		send_words(thread);
		return;
	}
	if (*(volatile __u32 *)&thread->flags & FUNC_SENDS_INTS) {
		thread->pointer = call->argument[2];
		thread->bytes = (__u64)(__u32)call->argument[3] * 4;
		send_words(thread);
	}
	thread->pointer = call->argument[*(volatile __u32 *)&thread->position & (CALL_SLOTS - 1)];
	if (bpf_probe_read_user(&thread->word, sizeof(thread->word),
				(const void *)thread->pointer) ||
	    thread->word ||
	    (call->function & FUNC_SPLITS && (__s32)call->argument[2] == NCCL_NO_COLOR))
		return;
	await_handle(thread, thread->pointer);
}

#endif
