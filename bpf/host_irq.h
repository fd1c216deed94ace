/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The time that interrupts take from the threads of followed processes. */
#ifndef GPUSNOOP_HOST_IRQ_H
#define GPUSNOOP_HOST_IRQ_H

#include "bpf/lib/processes/followed.h"

/* The values of the label `kind`. */
enum irq_kind {
	IRQ_HARD, /* a handler of a device's driver */
	IRQ_SOFT, /* what a handler has put off, and the kernel's timers */
	IRQ_KINDS,
};

struct irq_key {
	__u64 since_ns;
	__u32 tgid;
	__u16 kind;   /* enum irq_kind */
	__u16 role;   /* enum followed_role */
	__u32 source; /* hard: the interrupt's number; soft: as in include/linux/interrupt.h */
	__u32 unused;
};
WIRE_SIZE(struct irq_key, 24);

#endif
