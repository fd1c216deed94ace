/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Memory with handles: its mappings, and the end of a handle's last use. */
#ifndef GPUSNOOP_CUDA_HANDLES_BPF_H
#define GPUSNOOP_CUDA_HANDLES_BPF_H

#include "bpf/cuda/memory.bpf.h"

/* Adjacent mappings that one cuMemUnmap ends here. It leaves the rest of its range to the exporter
 * (leave_rest()), which reads the whole table. */
#define MAX_UNMAPPED 64

/* At entry, so that a release by another thread does not find the handle unused. */
static __always_inline void begin_map(struct thread *thread, const struct call *call)
{
	struct cuda_live *found;

	thread->released = RELEASED_NOTHING;
	set_key(thread, argument(call, CUDA_SOURCE), CUDA_LIVE_HANDLES);
	found = bpf_map_lookup_elem(&cuda_live, &thread->key);
	thread->caller = 0;
	if (found) {
		__sync_fetch_and_add(&found->uses, CUDA_ONE_MAPPING);
		thread->released = RELEASED_REF;
		thread->caller = found->born_ns;
	}
}

static __always_inline void send_mapping(struct thread *thread, const struct call *call,
					 enum cuda_record_type type, __u32 is_unfinished,
					 __u32 is_host)
{
	struct cuda_mapping_record *record;

	record = bpf_ringbuf_reserve(&cuda_mem_events, sizeof(*record), 0);
	if (!record) {
		count_lost_allocation(thread);
		return;
	}
	fill_call(&record->head, thread, call, type);
	record->address = argument(call, CUDA_ADDRESS);
	record->bytes = argument(call, CUDA_BYTES);
	record->is_unfinished = is_unfinished;
	record->is_host = is_host;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* Removes one mapping of the handle at thread->key, if that handle was born at born_ns. */
static __always_inline void drop_mapping(struct thread *thread, const struct call *call,
					 __u64 born_ns)
{
	struct cuda_live *found = bpf_map_lookup_elem(&cuda_live, &thread->key);

	if (!found || found->born_ns != born_ns)
		return;
	if (release_ref(thread, CUDA_ONE_MAPPING) != RELEASED_ENTRY || thread->live.imported)
		return;
	ACCOUNT(entered, 1); /* a record besides the call's own */
	send_allocation(thread, call, CUDA_RECORD_FREE, CUDA_ALLOCATION_KNOWN);
}

static __always_inline void undo_map(struct thread *thread, const struct call *call)
{
	if (thread->released == RELEASED_REF)
		drop_mapping(thread, call, thread->caller);
}

/* Marks an entry among the mappings as ended. True for the first caller, which then removes the
 * mapping from the handle. */
static __always_inline bool mark_ended(struct cuda_live *found)
{
	return !__sync_lock_test_and_set(&found->uses, 1);
}

/* The former mapping at this address has ended, though its end was not seen, or not yet. */
static __always_inline void drop_former_mapping(struct thread *thread, const struct call *call)
{
	if (!thread->words[0])
		return;
	set_key(thread, thread->words[1], CUDA_LIVE_HANDLES);
	drop_mapping(thread, call, thread->words[2]);
}

static __always_inline void finish_map(struct thread *thread, const struct call *call)
{
	struct cuda_live *former, *handle;

	set_key(thread, argument(call, CUDA_SOURCE), CUDA_LIVE_HANDLES);
	handle = bpf_map_lookup_elem(&cuda_live, &thread->key);
	thread->words[3] = handle ? handle->kind : MEMORY_vmm;
	set_key(thread, argument(call, CUDA_ADDRESS), CUDA_LIVE_MAPPINGS);
	former = bpf_map_lookup_elem(&cuda_live, &thread->key);
	thread->words[0] = former && mark_ended(former);
	thread->words[1] = former ? former->context : 0;
	thread->words[2] = former ? former->caller : 0;
	__builtin_memset(&thread->live, 0, sizeof(thread->live));
	thread->live.bytes = argument(call, CUDA_BYTES);
	thread->live.born_ns = thread->ended_ns;
	thread->live.context = argument(call, CUDA_SOURCE);
	thread->live.caller = thread->caller;
	thread->live.kind = thread->words[3];
	for (int i = 0; i < LIVE_TRIES; i++) {
		if (!bpf_map_update_elem(&cuda_live, &thread->key, &thread->live, BPF_ANY)) {
			send_mapping(thread, call, CUDA_RECORD_MAP, false,
				     MEMORY_IS_HOST(thread->live.kind));
			drop_former_mapping(thread, call);
			return;
		}
	}
	ACCOUNT(lost[LOST_allocation_table], 1);
	/* The end of this mapping will not be known, so the handle must not wait for it. */
	set_key(thread, argument(call, CUDA_SOURCE), CUDA_LIVE_HANDLES);
	undo_map(thread, call);
}

/* Notes for the exporter that this call unmapped the range from words[0] to words[1]. */
static __always_inline bool leave_rest(struct thread *thread, const struct call *call)
{
	set_key(thread, thread->ended_ns, CUDA_LIVE_UNMAPS);
	__builtin_memset(&thread->live, 0, sizeof(thread->live));
	thread->live.born_ns = call->started_ns;
	thread->live.context = thread->words[0];
	thread->live.caller = thread->words[1];
	for (int i = 0; i < LIVE_TRIES; i++) {
		if (!bpf_map_update_elem(&cuda_live, &thread->key, &thread->live, BPF_NOEXIST))
			return true;
		thread->key.address++; /* another thread's note has the same time */
	}
	ACCOUNT(entered, 1); /* besides the call's own record */
	ACCOUNT(lost[LOST_allocation_table], 1);
	return false;
}

/* One call can end many mappings, with gaps between them. This ends the adjacent mappings from the
 * start of the range on, MAX_UNMAPPED at most. words: where, end. */
static __always_inline void finish_unmap(struct thread *thread, const struct call *call)
{
	struct cuda_live *found;
	bool is_unfinished;

	thread->words[0] = argument(call, CUDA_ADDRESS);
	thread->words[1] = thread->words[0] + argument(call, CUDA_BYTES);
	for (int i = 0; i < MAX_UNMAPPED; i++) {
		if (thread->words[0] >= thread->words[1])
			break;
		set_key(thread, thread->words[0], CUDA_LIVE_MAPPINGS);
		found = bpf_map_lookup_elem(&cuda_live, &thread->key);
		/* Another thread can have mapped there again before this call returned. */
		if (!found || found->born_ns > call->started_ns)
			break;
		thread->words[0] += found->bytes;
		thread->words[2] = found->context;
		thread->words[3] = mark_ended(found);
		thread->words[4] = found->caller;
		bpf_map_delete_elem(&cuda_live, &thread->key);
		if (thread->words[3]) {
			set_key(thread, thread->words[2], CUDA_LIVE_HANDLES);
			drop_mapping(thread, call, thread->words[4]);
		}
	}
	is_unfinished = thread->words[0] < thread->words[1] && leave_rest(thread, call);
	send_mapping(thread, call, CUDA_RECORD_UNMAP, is_unfinished, false);
}

/* For the exporter, which runs this by bpf_prog_test_run: ends the mapping of that process at that
 * address, if it is still the one that was made at that time. A handle without uses is then freed,
 * as by the process's own calls. The exporter also deletes the entry: here it cannot be
 * distinguished from a mapping that the process makes at the same address at this moment. */
enum end_mapping_argument { END_ADDRESS, END_SINCE, END_TGID, END_BORN };

static __always_inline void end_mapping_of(struct thread *thread,
					   struct bpf_raw_tracepoint_args *arguments)
{
	struct call *call = &thread->open.call[0]; /* the exporter makes no CUDA calls */
	struct cuda_live *found;

	thread->tgid = arguments->args[END_TGID];
	set_key(thread, arguments->args[END_ADDRESS], CUDA_LIVE_MAPPINGS);
	found = bpf_map_lookup_elem(&cuda_live, &thread->key);
	if (!found || found->born_ns != arguments->args[END_BORN])
		return;
	thread->words[0] = found->context;
	thread->words[1] = found->caller;
	if (!mark_ended(found))
		return;
	thread->ended_ns = bpf_ktime_get_ns();
	thread->result = 0;
	call->started_ns = thread->ended_ns;
	call->function = CUDA_NO_FUNCTION;
	set_key(thread, thread->words[0], CUDA_LIVE_HANDLES);
	drop_mapping(thread, call, thread->words[1]);
}

/* A handle from another process is no allocation of this one, and a multicast object has no memory
 * of its own: their release is no free. */
static __always_inline void finish_handle(struct thread *thread, const struct call *call)
{
	struct cuda_live *found;

	ACCOUNT(events, 1);
	set_key(thread, 0, CUDA_LIVE_HANDLES);
	if (bpf_probe_read_user(&thread->key.address, sizeof(__u64),
				(const void *)argument(call, CUDA_ADDRESS)))
		return;
	found = bpf_map_lookup_elem(&cuda_live, &thread->key);
	if (found) {
		__sync_fetch_and_add(&found->uses, CUDA_ONE_REFERENCE);
		return;
	}
	__builtin_memset(&thread->live, 0, sizeof(thread->live));
	thread->live.uses = CUDA_ONE_REFERENCE;
	thread->live.born_ns = thread->ended_ns;
	thread->live.imported = 1;
	thread->live.kind = MEMORY_vmm;
	bpf_map_update_elem(&cuda_live, &thread->key, &thread->live, BPF_NOEXIST);
}

#endif /* GPUSNOOP_CUDA_HANDLES_BPF_H */
