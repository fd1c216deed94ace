/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef GPUSNOOP_PROCESS_FILTER_H
#define GPUSNOOP_PROCESS_FILTER_H

/* PID_MAX_LIMIT of 64-bit kernels (include/linux/threads.h), 4194304, in words of 64 bits. */
#define PROCESS_FILTER_WORDS 65536

#endif
