/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The table of fences, and the records of their events. A program that gets the fence does not get
 * the names of its driver and its timeline: the kernel asks the driver for them, and only the
 * tracepoint's own record has them. That record does not have the fence's address. So each
 * tracepoint has two programs, which find each other by the fence's numbers. The exporter reads the
 * offsets of the record's fields from the tracepoint's format. */
#ifndef GPUSNOOP_FENCE_RECORDS_BPF_H
#define GPUSNOOP_FENCE_RECORDS_BPF_H

#include "bpf/fence/fence.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/target.bpf.h"
#include "bpf/lib/traced.bpf.h"

/* Where the fields lie in the record. */
const volatile __u32 driver_at = 8;
const volatile __u32 timeline_at = 12;
const volatile __u32 context_at = 16;
const volatile __u32 seqno_at = 20;

/* By the fence's address. */
ON_DEMAND_MAP(fence_known, 131072, __u64, struct fence_known);

/* Where the two programs of a tracepoint meet: the first to run leaves its data here. Usually that
 * is the program with the fence; it is the program with the names if another tool attached to the
 * tracepoint's record before us. An interrupt between the two has its own place. Data whose other
 * program did not run is overwritten later; then its record is sent without names. */
enum place_state {
	PLACE_EMPTY,
	PLACE_HAS_RECORD, /* without names */
	PLACE_HAS_NAMES,  /* of the record, only its type and the low halves of the numbers */
};

struct place {
	__u64 fence; /* its address, if the names go into the table, too; else 0 */
	__u64 state; /* enum place_state */
	struct fence_record record;
};

#define PLACES 4

struct meeting {
	__u64 next;
	struct place places[PLACES];
};

PERCPU_MAP(fence_meetings, 1, struct meeting);

static __always_inline struct meeting *this_meeting(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&fence_meetings, &zero);
}

/* The place in which the other program of this event left data, in that state. A tracepoint's
 * record has only the low 32 bits of the numbers. The names cannot be wrong: fences of one context
 * and one number have the same names. */
static __always_inline struct place *find_place(struct meeting *meeting, enum place_state state,
						__u32 type, __u32 context, __u32 seqno)
{
	for (int i = 0; i < PLACES; i++) {
		struct place *place = &meeting->places[i];

		if (place->state == state && place->record.head.type == type &&
		    (__u32)place->record.fence.context == context &&
		    (__u32)place->record.fence.seqno == seqno)
			return place;
	}
	return NULL;
}

/* Sends a record that is not in the ring yet. */
static __always_inline void send(const struct fence_record *from)
{
	struct fence_record *record = bpf_ringbuf_reserve(&fence_events, sizeof(*record), 0);

	ACCOUNT(entered, 1);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	__builtin_memcpy(record, from, sizeof(*record));
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline struct place *take_place(struct meeting *meeting)
{
	struct place *place = &meeting->places[meeting->next++ & (PLACES - 1)];

	if (place->state == PLACE_HAS_RECORD)
		send(&place->record);
	place->fence = 0;
	place->state = PLACE_EMPTY;
	__builtin_memset(&place->record, 0, sizeof(place->record));
	return place;
}

/* An event, without the names of the fence: they are there already, or the other program brings
 * them. `to_table`: they also go into the fence's entry. */
static __always_inline void send_without_names(struct dma_fence *fence, __u32 event, __u64 since_ns,
					       __u32 tgid, __u32 tid, __u64 nanoseconds,
					       bool to_table)
{
	struct meeting *meeting = this_meeting();
	__u64 address = (__u64)fence;
	struct place *place;

	if (!meeting)
		return;
	place = find_place(meeting, PLACE_HAS_NAMES, FENCE_RECORD + event, fence->context,
			   fence->seqno);
	if (place && to_table) {
		struct fence_known *known = bpf_map_lookup_elem(&fence_known, &address);

		if (known)
			known->names = place->record.names;
	}
	if (!place) {
		place = take_place(meeting);
		place->fence = to_table ? address : 0;
	}
	fill_traced(&place->record.head, since_ns, tgid, FENCE_RECORD + event);
	place->record.fence.context = fence->context;
	place->record.fence.seqno = fence->seqno;
	place->record.tid = tid;
	place->record.has_duration = event == FENCE_wait_end || nanoseconds != 0;
	place->record.nanoseconds = nanoseconds;
	if (place->state == PLACE_EMPTY) {
		place->state = PLACE_HAS_RECORD;
		return;
	}
	place->state = PLACE_EMPTY;
	send(&place->record);
}

static __always_inline void send_known(struct dma_fence *fence, __u32 event, __u64 since_ns,
				       __u32 tgid, __u32 tid, __u64 nanoseconds,
				       const struct fence_known *known)
{
	struct fence_record *record = bpf_ringbuf_reserve(&fence_events, sizeof(*record), 0);

	ACCOUNT(entered, 1);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_traced(&record->head, since_ns, tgid, FENCE_RECORD + event);
	record->fence.context = fence->context;
	record->fence.seqno = fence->seqno;
	record->tid = tid;
	record->has_duration = event == FENCE_wait_end || nanoseconds != 0;
	record->nanoseconds = nanoseconds;
	record->names = known->names;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline __u32 field(const void *context, __u32 at)
{
	__u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), context + (at & 4095));
	return value;
}

static __always_inline void read_names(struct fence_names *names, const void *context)
{
	/* __data_loc: the place in the record, and in the upper half the length. */
	__u32 at = field(context, driver_at) & 0xffff;

	bpf_probe_read_kernel_str(names->driver, sizeof(names->driver), context + at);
	at = field(context, timeline_at) & 0xffff;
	bpf_probe_read_kernel_str(names->timeline, sizeof(names->timeline), context + at);
}

/* Can the other program of this event run later, and need the names? */
static __always_inline bool may_need_names(__u32 event)
{
	if (target_kinds & TARGET_EVERYTHING)
		return true;
	return event != FENCE_signaled && event != FENCE_destroy &&
	       target_since(bpf_get_current_task_btf());
}

static __always_inline void on_names(void *ctx, __u32 event)
{
	struct meeting *meeting = this_meeting();
	__u32 context = field(ctx, context_at);
	__u32 seqno = field(ctx, seqno_at);
	struct place *place;

	if (!meeting)
		return;
	place = find_place(meeting, PLACE_HAS_RECORD, FENCE_RECORD + event, context, seqno);
	if (place) {
		read_names(&place->record.names, ctx);
		place->state = PLACE_EMPTY;
		if (place->fence) {
			struct fence_known *known =
			    bpf_map_lookup_elem(&fence_known, &place->fence);

			if (known)
				known->names = place->record.names;
		}
		send(&place->record);
		return;
	}
	if (!may_need_names(event))
		return;
	place = find_place(meeting, PLACE_HAS_NAMES, FENCE_RECORD + event, context, seqno);
	if (!place)
		place = take_place(meeting);
	read_names(&place->record.names, ctx);
	place->record.head.type = FENCE_RECORD + event;
	place->record.fence.context = context;
	place->record.fence.seqno = seqno;
	place->state = PLACE_HAS_NAMES;
}

#endif
