/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The stacks of Python's functions at calls of libraries.
 *
 * The program at the entry of such a call looks its process up among those in which the exporter
 * has found an interpreter. If it is there, it ends with a tail call to a program of its own, as
 * the verifier has no room for the walk beside the rest. That program walks the thread's frames in
 * scratch that only threads of Python have, for at most 64 functions, and as far as their pages are
 * in memory. Of each it keeps the code object's address, a hash by which the exporter sees whether
 * another code object is there by the time it reads names, and the place of the call in the code.
 * Stacks are kept in a table, by a hash of all that; the call's record has the key. The exporter
 * removes stacks that nothing has any more, and counts those of each process, which are limited.
 *
 * A thread of PyTorch's autograd has frames only while it runs functions of Python's. If it has
 * none, the program runs once more, for the frames of the main thread. */
#ifndef GPUSNOOP_PYTHON_STACKS_BPF_H
#define GPUSNOOP_PYTHON_STACKS_BPF_H

#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/names.bpf.h"
#include "bpf/lib/python/stacks.h"

/* A probe defines the following before it includes this file.
 *
 * struct thread: what it keeps of a thread.
 * PYTHON_PROCESS(thread): its struct python_key, of the thread's process.
 * PYTHON_STACK(thread): the key of the stack that was found, or PYTHON_STACK_... */
#ifndef PYTHON_PROCESS
#error "define PYTHON_PROCESS"
#endif

/* Set before load. */
const volatile bool python_stacks = false;

ON_DEMAND_MAP(NAMED(pythons), PYTHON_MAX_PROCESSES, struct python_key, struct python_interpreter);

ON_DEMAND_MAP(NAMED(pystacks), 8192, __u64, struct python_stack);

/* If a walk takes longer, other threads had the CPU meanwhile. */
#define PYTHON_LONGEST_NS 100000

/* What entries end with. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} NAMED(tails) SEC(".maps");

struct scratch {
	struct python_walk python;
	struct python_interpreter interpreter;
	struct python_stack stack;
	struct python_frame next;
	__u64 hash;
	__u64 identity[PYTHON_IDENTITY_WORDS + 1];
	char comm[16];
	/* The thread's own state, and the main thread's, as python.thread. */
	struct python_thread known[2];
	__u64 of_main; /* 1: the walk is the main thread's */
};

THREAD_MAP(NAMED(pywalks), struct scratch);

static __always_inline struct python_interpreter *interpreter_of(struct thread *thread)
{
	return bpf_map_lookup_elem(&NAMED(pythons), PYTHON_PROCESS(thread));
}

#define PYTHON_MAX_FRAMES PYTHON_STACK_FRAMES
#define PYTHON_FRAME_MASK (PYTHON_STACK_FRAMES - 1)

static __always_inline void mix(struct scratch *scratch, __u64 word)
{
	scratch->hash = (scratch->hash ^ word) * 0x100000001b3; /* FNV-1a, of words */
	scratch->hash ^= scratch->hash >> 29;
}

/* Of the code object in scratch->next. 0: it cannot be read. */
static __always_inline __u32 next_identity(struct scratch *scratch)
{
	__u32 name;

	if (bpf_probe_read_user(scratch->identity, sizeof(scratch->identity),
				(void *)(scratch->next.code + scratch->interpreter.code_identity)))
		return 0;
	barrier_var(scratch);
	name = scratch->interpreter.identity_name & 7;
	if (!name)
		return python_identity(scratch->identity);
	if (bpf_probe_read_user(scratch->identity + PYTHON_IDENTITY_WORDS, sizeof(__u64),
				(void *)(scratch->identity[name] + PYTHON_HASH_OF_TEXT)))
		return 0;
	barrier_var(scratch);
	name = scratch->interpreter.identity_name & 7;
	scratch->identity[name] = scratch->identity[PYTHON_IDENTITY_WORDS];
	return python_identity(scratch->identity);
}

/* Adds the frame that was read to the scratch's stack. */
static __always_inline void add_frame(struct scratch *scratch, __u32 frames)
{
	const struct python_layout *layout = &scratch->python.layout;
	const __u8 *bytes = (const __u8 *)scratch->python.bytes;
	__u32 last = (frames - 1) & PYTHON_FRAME_MASK;
	__u64 place;

	if (layout->owner_shim && bytes[layout->frame_owner & 0x7f] >= layout->owner_shim) {
		barrier_var(last); /* up to Linux 6.1, the verifier does not see that it is small */
		if (frames > 0) {
			scratch->stack.frame[last & PYTHON_FRAME_MASK].code |= PYTHON_ENTRY;
			mix(scratch, PYTHON_ENTRY);
		}
		return;
	}
	scratch->next.code = *(__u64 *)&bytes[layout->frame_code & 0x78] & ~PYTHON_TAGS;
	place = *(__u64 *)&bytes[scratch->interpreter.frame_instruction & 0x78];
	scratch->next.instruction =
	    (place - scratch->next.code - scratch->interpreter.code_instructions) >> 1;
	barrier_var(scratch);
	scratch->next.identity = next_identity(scratch);
	barrier_var(scratch);
	layout = &scratch->python.layout;
	bytes = (const __u8 *)scratch->python.bytes;
	if (layout->frame_is_entry && bytes[layout->frame_is_entry & 0x7f])
		scratch->next.code |= PYTHON_ENTRY;
	mix(scratch, scratch->next.code);
	mix(scratch, (__u64)scratch->next.identity << 32 | (__u32)scratch->next.instruction);
	frames = scratch->python.frames;
	scratch->python.frames = frames + 1;
	barrier_var(frames);
	scratch->stack.frame[frames & PYTHON_FRAME_MASK] = scratch->next;
}

#include "bpf/lib/python/walk.bpf.h"

static __always_inline void look_up_thread(struct scratch **scratch)
{
	if (is_thread_known(scratch))
		return;
	find_thread(scratch);
	(*scratch)->python.thread.looked_ns = bpf_ktime_get_ns();
	FORGET_ADDRESSES(scratch);
}

/* "pt_autograd_0" */
static __always_inline bool is_of_autograd(struct scratch *scratch, struct task_struct *task)
{
	const char *comm = scratch->comm;

	return !bpf_probe_read_kernel(scratch->comm, sizeof(scratch->comm), task->comm) &&
	       comm[0] == 'p' && comm[1] == 't' && comm[2] == '_' && comm[3] == 'a' &&
	       comm[4] == 'u' && comm[5] == 't' && comm[6] == 'o' && comm[7] == 'g';
}

/* Keeps the scratch's stack. */
static __always_inline __u64 stored_python(struct scratch *scratch, struct thread *thread)
{
	struct python_interpreter *interpreter;

	scratch->stack.used_ns = bpf_ktime_get_ns();
	scratch->stack.frames = scratch->python.frames;
	if (scratch->hash <= PYTHON_STACK_BACKWARD)
		scratch->hash = ~scratch->hash;
	scratch->hash = (scratch->hash & ~1ULL) | (scratch->of_main & PYTHON_STACK_BACKWARD);
	if (!bpf_map_lookup_elem(&NAMED(pystacks), &scratch->hash)) {
		interpreter = interpreter_of(thread);
		if (!interpreter || interpreter->stacks >= PYTHON_MAX_STACKS_OF)
			return PYTHON_STACK_NONE;
		__sync_fetch_and_add(&interpreter->stacks, 1);
	}
	return bpf_map_update_elem(&NAMED(pystacks), &scratch->hash, &scratch->stack, BPF_ANY)
		   ? PYTHON_STACK_NONE
		   : scratch->hash;
}

static __always_inline void forget_threads(struct scratch *scratch)
{
	__builtin_memset(scratch->known, 0, sizeof(scratch->known));
	scratch->of_main = 0;
}

/* Whose walk it is is read again each time: else the verifier checks all for either thread. */
static __always_inline void begin_walk(struct scratch **scratch, struct task_struct *task)
{
	__u64 of_main = *(volatile __u64 *)&(*scratch)->of_main & 1;

	barrier_var(of_main);
	(*scratch)->python.thread = (*scratch)->known[of_main & 1];
	FORGET_ADDRESSES(scratch);
	if (*(volatile __u64 *)&(*scratch)->of_main)
		read_id(scratch, task->group_leader->thread_pid);
	else
		read_own_id(scratch);
	look_up_thread(scratch);
	of_main = *(volatile __u64 *)&(*scratch)->of_main & 1;
	barrier_var(of_main);
	(*scratch)->known[of_main & 1] = (*scratch)->python.thread;
	FORGET_ADDRESSES(scratch);
}

/* Without frames. True: the main thread's are to be read. */
static __always_inline bool needs_main(struct scratch *scratch, struct thread *thread,
				       struct task_struct *task)
{
	bool was_main = scratch->of_main;

	scratch->of_main = 0;
	PYTHON_STACK(thread) = PYTHON_STACK_NONE;
	if (!is_of_autograd(scratch, task))
		return false;
	PYTHON_STACK(thread) = PYTHON_STACK_BACKWARD;
	scratch->of_main = !was_main;
	return !was_main;
}

/* The process's memory may mean to confuse: whatever it has there, the walk ends, and its result is
 * the process's own. Returns as needs_main(). */
static __always_inline bool find_python_of(struct thread *thread, struct task_struct *task)
{
	struct python_interpreter *interpreter;
	struct scratch *scratch;

	PYTHON_STACK(thread) = PYTHON_STACK_NONE;
	scratch = bpf_task_storage_get(&NAMED(pywalks), task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!scratch)
		return false;
	interpreter = interpreter_of(thread);
	if (!interpreter)
		return false;
	scratch->interpreter = *interpreter;
	scratch->python.layout = scratch->interpreter.frames;
	if (scratch->stack.since_ns !=
	    PYTHON_PROCESS(thread)->since_ns) /* the thread was another program's */
		forget_threads(scratch);
	scratch->stack.since_ns = PYTHON_PROCESS(thread)->since_ns;
	scratch->stack.tgid = PYTHON_PROCESS(thread)->tgid;
	scratch->hash = 0xcbf29ce484222325 ^ PYTHON_PROCESS(thread)->since_ns;
	mix(scratch, PYTHON_PROCESS(thread)->tgid);
	scratch->python.frames = 0;
	begin_walk(&scratch, task);
	if (scratch->python.thread.state)
		walk_frames(&scratch);
	if (!scratch->python.frames)
		return needs_main(scratch, thread, task);
	PYTHON_STACK(thread) = stored_python(scratch, thread);
	scratch->of_main = 0;
	return false;
}

#endif
