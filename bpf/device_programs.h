/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The programs that decide which devices a process may open (cgroup v2), in words of 8 bytes:
 * DEVICE_PROGRAMS_BEGIN, and for each program a word with its length and its instructions. */
#ifndef GPUSNOOP_DEVICE_PROGRAMS_H
#define GPUSNOOP_DEVICE_PROGRAMS_H

#define DEVICE_PROGRAMS_BEGIN 0x6465766963657300ULL

/* In the place of a length: the program is too long to be sent, or there are more programs. */
#define DEVICE_PROGRAM_UNREADABLE 0xffffffffULL

/* The kernel collects 32 KiB for one process. */
#define DEVICE_PROGRAM_MOST_INSTRUCTIONS 960
#define DEVICE_PROGRAM_WORD_BYTES	 8
#define DEVICE_PROGRAMS_MOST		 4

#endif
