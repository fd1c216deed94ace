/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Where in Python's code a thread was that a signal ended inside of a CUDA call, or whose call
 * failed. */
#ifndef GPUSNOOP_DYING_H
#define GPUSNOOP_DYING_H

#include "bpf/lib/python/layout.h"
#include "bpf/lib/wire.h"

#define DYING_FRAMES	  32   /* of a stack that are sent, the innermost ones */
#define DYING_TEXT_BYTES  512  /* of a string object; a longer one is not read */
#define DYING_TABLE_BYTES 2048 /* of a table of lines, the first ones */

/* Where the interpreter of a process keeps frames and code, by tgid. Offsets in bytes. */
struct dying_interpreter {
	struct python_layout frames;
	__u32 frame_instruction; /* of _PyInterpreterFrame */
	__u32 code_instructions; /* of PyCodeObject; 0: a frame has an index instead */
	__u32 file_name;	 /* these four the same */
	__u32 qualified_name;
	__u32 line_table;
	__u32 first_line;
	__u32 ascii_text; /* of a string object: its text */
	__u32 unicode_text;
};
WIRE_SIZE(struct dying_interpreter, sizeof(struct python_layout) + 8 * 4);

/* One frame of a stack, with its objects as the process has them. */
struct dying_frame_record {
	__u64 call_started_ns; /* of the CUDA call */
	__u32 tgid;
	__u32 tid;
	__u32 index; /* 0: the innermost */
	__s32 first_line;
	__s64 instruction;
	__u32 file_bytes; /* these three: 0 if the object could not be read */
	__u32 function_bytes;
	__u32 table_bytes;
	__u32 has_failed; /* 1: the call; 0: the thread is in it */
	char file[DYING_TEXT_BYTES];
	char function[DYING_TEXT_BYTES];
	char table[DYING_TABLE_BYTES];
};
WIRE_SIZE(struct dying_frame_record, 48 + 2 * DYING_TEXT_BYTES + DYING_TABLE_BYTES);

#endif
