/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Walks the frames of Python's functions, which CPython keeps in a list of each thread. */
#ifndef GPUSNOOP_PYTHON_WALK_BPF_H
#define GPUSNOOP_PYTHON_WALK_BPF_H

#include "bpf/lib/python/layout.h"

/* A probe defines the following before it includes this file.
 *
 * struct scratch: all that a walk needs, with a member `struct python_walk python`, as programs at
 * functions have little stack.
 * PYTHON_MAX_FRAMES: how many frames a stack has at most.
 * void add_frame(struct scratch *scratch, __u32 frames): adds the frame in python.bytes to the
 * probe's stack, of which there are `frames` yet, and counts it in python.frames. */
#ifndef PYTHON_MAX_FRAMES
#error "define PYTHON_MAX_FRAMES"
#endif

#define PYTHON_MAX_THREADS   256 /* that are looked at, to find one */
#define PYTHON_LOOK_AGAIN_NS 100000000

/* The compiler is kept from remembering addresses in the scratch. */
#define FORGET_ADDRESSES(scratch) barrier_var(*(scratch))

static __always_inline __u64 python_word(struct scratch **scratch, __u64 address)
{
	bool is_read;

	FORGET_ADDRESSES(scratch);
	is_read = !bpf_probe_read_user(&(*scratch)->python.word, sizeof(__u64), (void *)address);
	FORGET_ADDRESSES(scratch);
	return is_read ? (*scratch)->python.word : 0;
}

/* What gettid() returns to the thread that has this. */
static __always_inline void read_id(struct scratch **scratch, struct pid *pid)
{
	__u64 innermost = bpf_core_field_offset(struct pid, numbers) +
			  pid->level * bpf_core_type_size(struct upid);

	bpf_probe_read_kernel(&(*scratch)->python.id, sizeof(__u32),
			      (char *)pid + innermost + bpf_core_field_offset(struct upid, nr));
	FORGET_ADDRESSES(scratch);
}

static __always_inline void read_own_id(struct scratch **scratch)
{
	read_id(scratch, bpf_get_current_task_btf()->thread_pid);
}

/* Has python.thread the id in python.id? */
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

/* Does python.thread, which is known from an earlier walk, save the search? */
static __always_inline bool is_thread_known(struct scratch **scratch)
{
	if ((*scratch)->python.thread.state)
		return is_own_thread(scratch);
	return bpf_ktime_get_ns() - (*scratch)->python.thread.looked_ns < PYTHON_LOOK_AGAIN_NS;
}

static __always_inline void walk_frames(struct scratch **scratch)
{
	__u64 frame = python_word(scratch, (*scratch)->python.thread.state +
					       (*scratch)->python.layout.thread_frame);
	__u32 frames;

	if ((*scratch)->python.layout.c_frame && frame)
		frame = python_word(scratch, frame + (*scratch)->python.layout.c_frame - 1);
	(*scratch)->python.frames = 0;
	for (int i = 0; i < 2 * PYTHON_MAX_FRAMES && frame; i++) {
		FORGET_ADDRESSES(scratch);
		if (bpf_probe_read_user(&(*scratch)->python.bytes, PYTHON_FRAME_BYTES,
					(void *)frame))
			return;
		FORGET_ADDRESSES(scratch);
		frames = (*scratch)->python.frames;
		if (frames >= PYTHON_MAX_FRAMES)
			return;
		add_frame(*scratch, frames);
		frame = *(__u64 *)&(*scratch)
			     ->python.bytes[(*scratch)->python.layout.frame_previous & 0x78];
	}
}

#endif
