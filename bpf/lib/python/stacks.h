/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The tables of Python interpreters and of their stacks, which a probe's programs share with the
 * exporter. */
#ifndef GPUSNOOP_PYTHON_STACKS_H
#define GPUSNOOP_PYTHON_STACKS_H

#include "bpf/lib/python/layout.h"

/* A process, as a probe knows it. */
struct python_key {
	__u64 since_ns;
	__u32 tgid;
	__u32 reserved;
};
WIRE_SIZE(struct python_key, 16);

/* The Python interpreter of a process, which the exporter finds. */
struct python_interpreter {
	struct python_layout frames;
	__u32 frame_instruction; /* of _PyInterpreterFrame: the address of its instruction */
	__u32 code_instructions; /* of PyCodeObject: the first one */
	__u32 code_identity;	 /* the same: PYTHON_IDENTITY_WORDS */
	__u32 identity_name;	 /* which of these is its name; 0: it has a version */
	__u32 reserved;
	__u32 stacks; /* of it that are in the table; counted again now and then, by the exporter */
};
WIRE_SIZE(struct python_interpreter, sizeof(struct python_layout) + 24);

#define PYTHON_STACK_FRAMES  64
#define PYTHON_MAX_STACKS_OF 1024 /* one process */

/* In place of a stack. */
#define PYTHON_STACK_NONE 0
/* The bit: of a thread of PyTorch's autograd that is in no function of Python's; the stack is the
 * main thread's, which may wait for it. Alone: that one has none, either. */
#define PYTHON_STACK_BACKWARD 1

struct python_frame {
	__u64 code;	   /* address of its code object, and PYTHON_ENTRY */
	__u32 identity;	   /* of that; 0: it could not be read */
	__s32 instruction; /* that made the call: its place in the code, in units of 2 bytes */
};
WIRE_SIZE(struct python_frame, 16);

/* An entry of the table of these, by a hash of all but the time. */
struct python_stack {
	__u64 used_ns; /* the last time */
	__u64 since_ns;
	__u32 tgid;
	__u32 frames;
	struct python_frame frame[PYTHON_STACK_FRAMES]; /* innermost first */
};
WIRE_SIZE(struct python_stack, 24 + 16 * PYTHON_STACK_FRAMES);

#endif
