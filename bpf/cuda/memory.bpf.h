/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Allocations and frees: the table of live ones, and the records about them. */
#ifndef GPUSNOOP_CUDA_MEMORY_BPF_H
#define GPUSNOOP_CUDA_MEMORY_BPF_H

#include "bpf/cuda/locations.bpf.h"
#include "bpf/cuda/python.bpf.h"
#include "bpf/lib/maps.bpf.h"

/* Keep the whole stack of each allocating call, not only where it returns to? */
const volatile bool keep_stacks = true;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* cleared where the kernel cannot (before 6.1) */
	__type(key, struct cuda_live_key);
	__type(value, struct cuda_live);
} cuda_live SEC(".maps");

STACK_MAP(cuda_stacks, 8192, CUDA_STACK_FRAMES);

static __always_inline bool is_handle(const struct call *call)
{
	return MEMORY_HAS_HANDLE(CUDA_COOKIE_VARIANT(call->function));
}

/* Sends the allocation in thread->key and thread->live. */
static __always_inline void send_allocation(struct thread *thread, const struct call *call,
					    enum cuda_record_type type, __u16 flags)
{
	struct cuda_allocation_record *record;

	record = bpf_ringbuf_reserve(&cuda_mem_events, sizeof(*record), 0);
	if (!record) {
		count_lost_allocation(thread);
		return;
	}
	fill_call(&record->head, thread, call, type);
	record->head.device = thread->live.device;
	record->address = thread->key.address;
	record->bytes = thread->live.bytes;
	record->born_ns = thread->live.born_ns;
	record->context = thread->live.context;
	record->caller = thread->live.caller;
	record->python = thread->live.python;
	record->stack = thread->live.stack;
	record->kind = thread->live.kind;
	record->flags = flags;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void begin_allocation(struct thread *thread, struct pt_regs *regs)
{
	thread->caller = call_caller(regs);
	thread->stack = keep_stacks ? bpf_get_stackid(regs, &cuda_stacks, BPF_F_USER_STACK) : -1;
	if (keep_stacks)
		add_cuda_cost(thread, costs.stack);
	begin_python(thread);
}

/* Reads the result of the call into thread->key.address and thread->live.bytes. */
static __always_inline long read_allocated(struct thread *thread, const struct call *call)
{
	const void *where = (const void *)argument(call, CUDA_ADDRESS);
	__u8 operation = CUDA_COOKIE_OPERATION(call->function);
	__u64 word = 0; /* on the stack: the kernel checks what is copied to its heap */

	if (operation == CUDA_ALLOCATE_3D) {
		if (bpf_probe_read_user(thread->words, 2 * sizeof(__u64), where))
			return -1;
		thread->key.address = thread->words[0];
		thread->live.bytes = thread->words[1] * call->argument[8] * call->argument[9];
		return 0;
	}
	thread->live.bytes = argument(call, CUDA_BYTES);
	if (operation == CUDA_ALLOCATE_PITCHED) {
		if (bpf_probe_read_user(&word, sizeof(word),
					(const void *)argument(call, CUDA_BYTES)))
			return -1;
		thread->live.bytes = word;
	}
	thread->live.bytes = counted_bytes(call, thread->live.bytes);
	if (!CUDA_COOKIE_SLOT(call->function, CUDA_ADDRESS)) { /* the program's own memory */
		thread->key.address = argument(call, CUDA_SOURCE);
		return 0;
	}
	if (bpf_probe_read_user(&word, sizeof(word), where))
		return -1;
	thread->key.address = word;
	return 0;
}

/* When the kernel's allocator for BPF programs runs low, an interrupt refills it: an entry that
 * finds no memory can find some a moment later. */
#define LIVE_TRIES 4
#define EEXIST	   17

static __always_inline long add_live(struct thread *thread)
{
	long error = 0;

	for (int i = 0; i < LIVE_TRIES; i++) {
		error = bpf_map_update_elem(&cuda_live, &thread->key, &thread->live, BPF_NOEXIST);
		if (!error || error == -EEXIST)
			break;
	}
	return error;
}

static __always_inline bool replace_live(struct thread *thread)
{
	struct cuda_live *found;

	if (!bpf_map_update_elem(&cuda_live, &thread->key, &thread->live, BPF_EXIST))
		return true;
	found = bpf_map_lookup_elem(&cuda_live, &thread->key);
	if (found) /* no room for a new entry: the old one is not valid any more */
		__builtin_memcpy(found, &thread->live, sizeof(*found));
	return found;
}

/* Limits the allocations of a process that only the exporter knows of, so that they cannot fill its
 * memory. A short lack of room makes far fewer. */
#define MAX_UNTABLED 65536

/* The allocation in thread->live has no room in the table. False: it is counted as lost. */
static __always_inline bool track_in_userspace(struct thread *thread)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);

	if (process && process->untabled < MAX_UNTABLED) {
		__sync_fetch_and_add(&process->untabled, 1);
		return true;
	}
	ACCOUNT(lost[LOST_allocation_table], 1);
	return false;
}

static __always_inline void finish_allocation(struct thread *thread, const struct call *call)
{
	__u16 flags = 0;

	locate(thread, call);
	set_key(thread, 0, is_handle(call) ? CUDA_LIVE_HANDLES : CUDA_LIVE_MEMORY);
	if (read_allocated(thread, call)) {
		ACCOUNT(lost[LOST_fault], 1);
		return;
	}
	thread->live.born_ns = thread->ended_ns;
	thread->live.caller = thread->caller;
	thread->live.uses = CUDA_ONE_REFERENCE;
	thread->live.python = thread->python;
	thread->live.stack = thread->stack;
	thread->live.imported = 0;
	/* One of 0 bytes has no address and is never freed. */
	if (thread->key.address && add_live(thread)) {
		flags = replace_live(thread) ? CUDA_ALLOCATION_REPLACES : CUDA_ALLOCATION_UNTABLED;
		if (flags == CUDA_ALLOCATION_UNTABLED && !track_in_userspace(thread))
			return;
	}
	send_allocation(thread, call, CUDA_RECORD_ALLOCATE, flags);
}

/* Removes one use of the entry at thread->key. With the last use the entry moves from the table to
 * thread->live. */
static __always_inline enum released release_ref(struct thread *thread, __u64 use)
{
	struct cuda_live *found = bpf_map_lookup_elem(&cuda_live, &thread->key);

	if (!found)
		return RELEASED_NOTHING;
	if (__sync_fetch_and_sub(&found->uses, use) != use)
		return RELEASED_REF;
	__builtin_memcpy(&thread->live, found, sizeof(thread->live));
	if (bpf_map_delete_elem(&cuda_live, &thread->key))
		return RELEASED_NOTHING;
	return RELEASED_ENTRY;
}

static __always_inline void begin_free(struct thread *thread, const struct call *call)
{
	thread->released = RELEASED_NOTHING;
	set_key(thread, argument(call, CUDA_ADDRESS),
		is_handle(call) ? CUDA_LIVE_HANDLES : CUDA_LIVE_MEMORY);
	if (thread->key.address)
		thread->released = release_ref(thread, CUDA_ONE_REFERENCE);
}

static __always_inline void finish_free(struct thread *thread, const struct call *call)
{
	if (!thread->key.address || thread->released == RELEASED_REF ||
	    (thread->released == RELEASED_ENTRY && thread->live.imported)) {
		ACCOUNT(events, 1);
	} else if (thread->released == RELEASED_ENTRY) {
		send_allocation(thread, call, CUDA_RECORD_FREE, CUDA_ALLOCATION_KNOWN);
	} else {
		__builtin_memset(&thread->live, 0, sizeof(thread->live));
		thread->live.kind = CUDA_COOKIE_VARIANT(call->function);
		thread->live.device = thread->chosen.ordinal_plus_1 - 1;
		send_allocation(thread, call, CUDA_RECORD_FREE, 0);
	}
}

/* The free failed: the memory is still allocated, and no other thread can have got its address. */
static __always_inline void undo_free(struct thread *thread, const struct call *call)
{
	struct cuda_live *found;

	if (thread->released == RELEASED_ENTRY) {
		thread->live.uses = CUDA_ONE_REFERENCE;
		if (!add_live(thread))
			return;
		ACCOUNT(entered, 1); /* a record besides the call's own */
		if (track_in_userspace(thread))
			send_allocation(thread, call, CUDA_RECORD_ALLOCATE,
					CUDA_ALLOCATION_KNOWN | CUDA_ALLOCATION_UNTABLED);
	} else if (thread->released == RELEASED_REF) {
		found = bpf_map_lookup_elem(&cuda_live, &thread->key);
		if (found)
			__sync_fetch_and_add(&found->uses, CUDA_ONE_REFERENCE);
	}
}

#endif
