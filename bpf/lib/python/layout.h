/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Where CPython keeps the frames of its threads. */
#ifndef GPUSNOOP_PYTHON_LAYOUT_H
#define GPUSNOOP_PYTHON_LAYOUT_H

#include "bpf/lib/wire.h"

#define PYTHON_MAX_PROCESSES 4096

#define PYTHON_FRAME_BYTES 80	/* of a frame, without its variables but one */
#define PYTHON_TAGS	   7ULL /* that addresses of objects have in frames of 3.14 */

/* The offsets of members, in bytes. */
struct python_layout {
	__u64 runtime;		   /* address of _PyRuntime */
	__u32 interpreters;	   /* of _PyRuntimeState: the first interpreter */
	__u32 interpreter_next;	   /* of PyInterpreterState */
	__u32 interpreter_threads; /* the same: its first thread */
	__u32 thread_next;	   /* of PyThreadState */
	__u32 thread_id;	   /* the same: as gettid() */
	__u32 thread_frame;	   /* the same: its frame, or its struct _PyCFrame */
	__u32 c_frame;		   /* of that: the frame + 1; 0: a thread has no such structure */
	__u32 frame_code;	   /* of _PyInterpreterFrame */
	__u32 frame_previous;	   /* the same */
	__u32 frame_owner;	   /* the same: a byte */
	__u32 owner_shim;     /* from this value on, in a frame of no function, below which C calls
			       * Python; 0: there is none */
	__u32 frame_is_entry; /* the byte that says that C has called this one; 0: such frames do */
};
WIRE_SIZE(struct python_layout, 8 + 12 * 4);

/* Where a thread's PyThreadState is. */
struct python_thread {
	__u64 state; /* 0: it has none */
	__u64 looked_ns;
};
WIRE_SIZE(struct python_thread, 16);

/* One walk over the frames of a thread. */
struct python_walk {
	struct python_layout layout;
	struct python_thread thread;
	__u64 interpreter;
	__u64 word;
	__u32 frames;
	__u32 id;
	char bytes[PYTHON_FRAME_BYTES + 64]; /* of a frame; any offset below 128 is inside */
};

/* A bit in the address of a code object: C has called it. */
#define PYTHON_ENTRY 1ULL

/* What distinguishes a code object from others that were at its address before, or will be: so many
 * words around its names, its first line and its version. Before CPython 3.12 it has no version,
 * and all that it points to may be used again, too: the hash of its name is put in place of the
 * name's address. */
#define PYTHON_IDENTITY_WORDS 9
#define PYTHON_HASH_OF_TEXT   24 /* where a string object has its hash */

/* Of 32 bits; never 0. */

static inline __u64 python_identity(const __u64 *words)
{
	__u64 hash = 0xcbf29ce484222325; /* FNV-1a, with a word instead of a byte */

	for (int i = 0; i < PYTHON_IDENTITY_WORDS; i++) {
		hash = (hash ^ words[i]) * 0x100000001b3;
		hash ^= hash >> 29;
	}
	return ((hash ^ hash >> 32) & 0xffffffff) | 1;
}

#endif
