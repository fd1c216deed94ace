/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What probes on functions cost the program that calls them. */
#ifndef GPUSNOOP_COST_H
#define GPUSNOOP_COST_H

#include "bpf/lib/wire.h"

/* In nanoseconds, as the exporter measures them on this machine when it starts. All 0: it has not
 * measured them, and nothing is counted. */
struct probe_costs {
	__u32 entry;	     /* a probe on the entry */
	__u32 stepped_entry; /* the same, on an instruction that the kernel cannot emulate */
	__u32 ending;	     /* a return probe */
	__u32 record;	     /* what the programs do for a call that they record */
	__u32 stack;	     /* reading the call's stack */
};
WIRE_SIZE(struct probe_costs, 20);

/* In the attach cookie of an entry, of any probe: the kernel cannot emulate the instruction there.
 * No probe's own cookies have this bit, and CALL_PROGRAMS takes it away at the return. */
#define CALL_STEPPED (1ULL << 31)

#endif
