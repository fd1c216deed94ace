/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The stacks of Python's functions. */
#ifndef GPUSNOOP_PROFILE_PYTHON_BPF_H
#define GPUSNOOP_PROFILE_PYTHON_BPF_H

#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/python/layout.h"

#define PYTHON_MAX_FRAMES PROFILE_STACK_FRAMES
#define PYTHON_FRAME_MASK 127 /* no frame has a higher index */

/* By process; the exporter knows where each has its interpreter. */
HASH_MAP(prof_python, PYTHON_MAX_PROCESSES, struct python_process, struct python_layout);

/* By thread. */
LRU_MAP(prof_pythreads, 16384, __u32, struct python_thread);

/* Adds the frame that was read to the scratch's stack. */
static __always_inline void add_frame(struct scratch *scratch, __u32 frames)
{
	const struct python_layout *layout = &scratch->python.layout;
	const __u8 *bytes = (const __u8 *)scratch->python.bytes;
	__u32 last = (frames - 1) & PYTHON_FRAME_MASK;

	if (layout->owner_shim && bytes[layout->frame_owner & 0x7f] >= layout->owner_shim) {
		barrier_var(last); /* up to Linux 6.1, the verifier does not see that it is small */
		if (frames > 0)
			scratch->stack.address[last & PYTHON_FRAME_MASK] |= PYTHON_ENTRY;
		return;
	}
	scratch->stack.address[frames] = *(__u64 *)&bytes[layout->frame_code & 0x78] & ~PYTHON_TAGS;
	if (layout->frame_is_entry && bytes[layout->frame_is_entry & 0x7f])
		scratch->stack.address[frames] |= PYTHON_ENTRY;
	scratch->python.frames = frames + 1;
}

#include "bpf/lib/python/walk.bpf.h"

static __always_inline void look_up_thread(struct scratch **scratch)
{
	struct python_thread *known;

	known = bpf_map_lookup_elem(&prof_pythreads, &(*scratch)->off.key.tid);
	FORGET_ADDRESSES(scratch);
	if (known) {
		(*scratch)->python.thread = *known;
		if (is_thread_known(scratch))
			return;
	}
	find_thread(scratch);
	(*scratch)->python.thread.looked_ns = bpf_ktime_get_ns();
	FORGET_ADDRESSES(scratch);
	bpf_map_update_elem(&prof_pythreads, &(*scratch)->off.key.tid, &(*scratch)->python.thread,
			    BPF_ANY);
	FORGET_ADDRESSES(scratch);
}

/* The current thread's, whose key the scratch has. 0: it runs no Python, or there is no room. */
static __always_inline __u64 python_stack_of(struct scratch *scratch)
{
	struct python_layout *layout;

	FORGET_ADDRESSES(&scratch);
	scratch->process.since_ns = scratch->off.key.since_ns;
	scratch->process.tgid = scratch->off.key.tgid;
	layout = bpf_map_lookup_elem(&prof_python, &scratch->process);
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
