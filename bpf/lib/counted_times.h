/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* How often something happened to a followed process, and how long it took in all. */
#ifndef GPUSNOOP_COUNTED_TIMES_H
#define GPUSNOOP_COUNTED_TIMES_H

#include "bpf/lib/wire.h"

struct counted_times {
	__u64 nanoseconds;
	__u64 count;
};
WIRE_SIZE(struct counted_times, 16);

#endif
