/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* How the exporter and its programs measure what a probe costs (bpf/calibration.bpf.c). */
#ifndef GPUSNOOP_CALIBRATION_H
#define GPUSNOOP_CALIBRATION_H

#include "bpf/lib/wire.h"

/* What a program does for a call. */
enum calibrated_work {
	CALIBRATED_NESTED, /* as for a call inside of another one, which has no record */
	CALIBRATED_RECORD, /* as for a call that is recorded */
	CALIBRATED_STACK,  /* the same, and reads its stack */
};

#define CALIBRATION_ENTRY_ONLY	 1ULL /* the attach cookie: the function's return is not seen */
#define CALIBRATION_ARGUMENTS	 6
#define CALIBRATION_STACK_FRAMES 127 /* what the kernel gives by default (perf_event_max_stack) */

struct calibration_record {
	__u64 duration_ns;
	__u64 argument[CALIBRATION_ARGUMENTS];
};
WIRE_SIZE(struct calibration_record, 56);

#endif
