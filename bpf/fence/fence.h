/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The fence probe's contract: events of DMA fences, and waits for them. */
#ifndef GPUSNOOP_FENCE_H
#define GPUSNOOP_FENCE_H

#include "bpf/lib/traced.h"

/* The tracepoints dma_fence:dma_fence_<name>; the names are the values of the label `event`. */
#define FENCE_EVENTS(EVENT)                                                                        \
	EVENT(init)                                                                                \
	EVENT(emit)                                                                                \
	EVENT(enable_signal)                                                                       \
	EVENT(signaled)                                                                            \
	EVENT(wait_start)                                                                          \
	EVENT(wait_end)                                                                            \
	EVENT(destroy)

enum fence_event {
#define EVENT(name) FENCE_##name,
	FENCE_EVENTS(EVENT)
#undef EVENT
	    FENCE_EVENT_COUNT
};

#define FENCE_DRIVER_BYTES   32
#define FENCE_TIMELINE_BYTES 64

/* Record types after the types of bpf/lib/traced.h: FENCE_RECORD + enum fence_event. */
#define FENCE_RECORD 16

/* The names of a fence at its init: at a later event the kernel may give other names. */
struct fence_names { /* empty where they could not be had */
	char driver[FENCE_DRIVER_BYTES];
	char timeline[FENCE_TIMELINE_BYTES];
};
WIRE_SIZE(struct fence_names, FENCE_DRIVER_BYTES + FENCE_TIMELINE_BYTES);

/* As the fence has them at the event: some drivers give it its number when they emit it. */
struct fence_id {
	__u64 context;
	__u64 seqno;
};
WIRE_SIZE(struct fence_id, 16);

/* head.since_ns 0: the process is not known. */
struct fence_record {
	struct traced_record head;
	struct fence_id fence;
	__u32 tid;	    /* the waiting thread; else 0 */
	__u32 has_duration; /* whether the next is known */
	__u64 nanoseconds;  /* wait_end: the wait; signaled: since the fence was emitted */
	struct fence_names names;
};
WIRE_SIZE(struct fence_record, 24 + 16 + 16 + sizeof(struct fence_names));

/* A fence of a traced process, from init to destroy. */
struct fence_known {
	__u64 since_ns;
	__u64 emitted_ns; /* 0: not yet */
	__u64 context;	  /* at its init, or when it was emitted */
	__u32 tgid;
	__u32 reserved;
	struct fence_names names;
};
WIRE_SIZE(struct fence_known, 32 + sizeof(struct fence_names));

#endif
