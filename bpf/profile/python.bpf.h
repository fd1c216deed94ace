/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The frames of Python's functions, which CPython keeps in a list of each thread. */
#ifndef GPUSNOOP_PROFILE_PYTHON_BPF_H
#define GPUSNOOP_PROFILE_PYTHON_BPF_H

#include "bpf/profile/python.h"

#define PYTHON_MAX_THREADS   256 /* that are looked at, to find one */
#define PYTHON_FRAME_MASK    127 /* no frame has a higher index */
#define PYTHON_LOOK_AGAIN_NS 100000000

/* By process; the exporter knows where each has its interpreter. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PYTHON_MAX_PROCESSES);
	__type(key, struct python_process);
	__type(value, struct python_layout);
} prof_python SEC(".maps");

/* By thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct python_thread);
} prof_pythreads SEC(".maps");

/* Programs at functions have little stack: all that a walk needs is in the scratch, and the
 * compiler is kept from remembering addresses in it. */
#define FORGET_ADDRESSES(scratch) barrier_var(*(scratch))

static __always_inline __u64 python_word(struct scratch **scratch, __u64 address)
{
	bool is_read;

	FORGET_ADDRESSES(scratch);
	is_read = !bpf_probe_read_user(&(*scratch)->python.word, sizeof(__u64), (void *)address);
	FORGET_ADDRESSES(scratch);
	return is_read ? (*scratch)->python.word : 0;
}

/* What gettid() returns to the thread. */
static __always_inline void read_own_id(struct scratch **scratch)
{
	struct pid *pid = bpf_get_current_task_btf()->thread_pid;
	__u64 innermost = bpf_core_field_offset(struct pid, numbers) +
			  pid->level * bpf_core_type_size(struct upid);

	bpf_probe_read_kernel(&(*scratch)->python.id, sizeof(__u32),
			      (char *)pid + innermost + bpf_core_field_offset(struct upid, nr));
	FORGET_ADDRESSES(scratch);
}

static __always_inline bool is_own_thread(struct scratch **scratch)
{
	__u64 id = python_word(scratch, (*scratch)->python.thread.state +
					    (*scratch)->python.layout.thread_id);

	return id == (*scratch)->python.id;
}

static __always_inline void look_at_interpreter(struct scratch **scratch, __u64 where)
{
	__u64 address = python_word(scratch, where);

	(*scratch)->python.interpreter = address;
	(*scratch)->python.thread.state = 0;
	if (!address)
		return;
	address = python_word(scratch, address + (*scratch)->python.layout.interpreter_threads);
	(*scratch)->python.thread.state = address;
}

static __always_inline void find_thread(struct scratch **scratch)
{
	__u64 next;

	look_at_interpreter(scratch, (*scratch)->python.layout.runtime +
					 (*scratch)->python.layout.interpreters);
	for (int i = 0; i < PYTHON_MAX_THREADS && (*scratch)->python.interpreter; i++) {
		if (!(*scratch)->python.thread.state) {
			look_at_interpreter(scratch,
					    (*scratch)->python.interpreter +
						(*scratch)->python.layout.interpreter_next);
			continue;
		}
		if (is_own_thread(scratch))
			return;
		next = python_word(scratch, (*scratch)->python.thread.state +
						(*scratch)->python.layout.thread_next);
		(*scratch)->python.thread.state = next;
	}
	(*scratch)->python.thread.state = 0;
}

static __always_inline void look_up_thread(struct scratch **scratch)
{
	struct python_thread *known;

	known = bpf_map_lookup_elem(&prof_pythreads, &(*scratch)->off.key.tid);
	FORGET_ADDRESSES(scratch);
	if (known) {
		(*scratch)->python.thread = *known;
		if ((*scratch)->python.thread.state) {
			if (is_own_thread(scratch))
				return;
		} else if (bpf_ktime_get_ns() - (*scratch)->python.thread.looked_ns <
			   PYTHON_LOOK_AGAIN_NS) {
			return;
		}
	}
	find_thread(scratch);
	(*scratch)->python.thread.looked_ns = bpf_ktime_get_ns();
	FORGET_ADDRESSES(scratch);
	bpf_map_update_elem(&prof_pythreads, &(*scratch)->off.key.tid, &(*scratch)->python.thread,
			    BPF_ANY);
	FORGET_ADDRESSES(scratch);
}

/* Adds the frame that was read to the scratch's stack. */
static __always_inline void add_frame(struct scratch *scratch, __u32 frames)
{
	const struct python_layout *layout = &scratch->python.layout;
	const char *bytes = scratch->python.bytes;
	__u32 last = (frames - 1) & PYTHON_FRAME_MASK;

	if (layout->owner_shim && bytes[layout->frame_owner & 0x7f] == (char)layout->owner_shim) {
		barrier_var(last); /* up to Linux 6.1, the verifier does not see that it is small */
		if (frames > 0)
			scratch->stack.address[last & PYTHON_FRAME_MASK] |= PYTHON_ENTRY;
		return;
	}
	scratch->stack.address[frames] = *(__u64 *)&bytes[layout->frame_code & 0x78];
	if (layout->frame_is_entry && bytes[layout->frame_is_entry & 0x7f])
		scratch->stack.address[frames] |= PYTHON_ENTRY;
	scratch->python.frames = frames + 1;
}

static __always_inline void walk_frames(struct scratch **scratch)
{
	__u64 frame = python_word(scratch, (*scratch)->python.thread.state +
					       (*scratch)->python.layout.thread_frame);
	__u32 frames;

	if ((*scratch)->python.layout.c_frame && frame)
		frame = python_word(scratch, frame + (*scratch)->python.layout.c_frame - 1);
	(*scratch)->python.frames = 0;
	for (int i = 0; i < 2 * PROFILE_STACK_FRAMES && frame; i++) {
		FORGET_ADDRESSES(scratch);
		if (bpf_probe_read_user(&(*scratch)->python.bytes, PYTHON_FRAME_BYTES,
					(void *)frame))
			return;
		FORGET_ADDRESSES(scratch);
		frames = (*scratch)->python.frames;
		if (frames >= PROFILE_STACK_FRAMES)
			return;
		add_frame(*scratch, frames);
		frame = *(__u64 *)&(*scratch)
			     ->python.bytes[(*scratch)->python.layout.frame_previous & 0x78];
	}
}

/* The current thread's, whose key the scratch has. 0: it runs no Python, or there is no room. */
static __always_inline __u64 python_stack_of(struct scratch *scratch)
{
	struct python_layout *layout;

	FORGET_ADDRESSES(&scratch);
	scratch->python.process.since_ns = scratch->off.key.since_ns;
	scratch->python.process.tgid = scratch->off.key.tgid;
	layout = bpf_map_lookup_elem(&prof_python, &scratch->python.process);
	if (!layout)
		return 0;
	scratch->python.layout = *layout;
	read_own_id(&scratch);
	look_up_thread(&scratch);
	if (!scratch->python.thread.state)
		return 0;
	walk_frames(&scratch);
	return stored(scratch, scratch->python.frames * sizeof(__u64));
}

#endif
