// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Requests to block devices, from when the driver gets one to its completion. A request belongs to
 * the followed process that hands it to the I/O scheduler, which a thread of the kernel may issue
 * then, or that issues it itself. Requests that a thread of the kernel makes, as for the writing
 * back of files, belong to nobody. */
#define PROBE block

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/host_block.h"
#include "bpf/lib/bucket.bpf.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"
#include "bpf/lib/guard.bpf.h"

/* A record of each request instead of counts, for a trace. */
const volatile bool tracing = false;
/* Of requests that take as long. */
const volatile __u64 trace_from_ns = 0;

RING_MAP(block_events, 256 << 10);

/* The values are of include/linux/blk_types.h. */
enum {
	REQ_OP_READ = 0,
	REQ_OP_WRITE = 1,
	REQ_OP_FLUSH = 2,
	REQ_OP_DISCARD = 3,
	REQ_OP_MASK = 255,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
	struct elevator_queue *elevator; /* NULL: the disk has no I/O scheduler */
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len; /* what is not done yet */
};

/* Before 5.17 (commit f3fa33acca9f), the disk was in the request. */
struct request___with_disk {
	struct gendisk *rq_disk;
};
#pragma clang attribute pop

struct open_request {
	__u64 queued_ns; /* since when it was in a queue, for a trace; 0: never */
	__u64 issued_ns; /* 0: it is with the scheduler */
	__u64 bytes;
	struct block_key key;
	__u32 tid;
	__u32 unused;
};

/* By the request's address. Entries are made with interrupts off, so none may be allocated then. */
HASH_MAP(block_open, 16384, __u64, struct open_request);

HASH_MAP(block_counts, 16384, struct block_key, struct block_times);

/* So that completions cost others no look-up while nobody who is followed waits for one. */
__u32 block_open_requests;

static const struct open_request no_request;
static const struct block_times no_times;

static __always_inline __u16 operation_of(struct request *request)
{
	switch (request->cmd_flags & REQ_OP_MASK) {
	case REQ_OP_READ:
		return BLOCK_READ;
	case REQ_OP_WRITE:
		return BLOCK_WRITE;
	case REQ_OP_FLUSH:
		return BLOCK_FLUSH;
	case REQ_OP_DISCARD:
		return BLOCK_DISCARD;
	default:
		return BLOCK_OTHER;
	}
}

static __always_inline __u32 device_of(struct request *request)
{
	struct request___with_disk *older = (void *)request;
	struct gendisk *disk;

	if (bpf_core_field_exists(older->rq_disk))
		disk = BPF_CORE_READ(older, rq_disk);
	else
		disk = BPF_CORE_READ(request, q, disk);
	return (__u32)BPF_CORE_READ(disk, major) << BLOCK_MINOR_BITS |
	       BPF_CORE_READ(disk, first_minor);
}

/* A request of a followed process. NULL: there is no room, which is counted. */
static __always_inline struct open_request *
own(struct request *request, const struct followed *process, const struct task_struct *task)
{
	__u64 id = (__u64)request;
	struct open_request *entry = bpf_map_lookup_elem(&block_open, &id);

	ACCOUNT(entered, 1);
	if (entry) {
		ACCOUNT(stale, 1); /* its completion was skipped */
	} else {
		bpf_map_update_elem(&block_open, &id, &no_request, BPF_NOEXIST);
		entry = bpf_map_lookup_elem(&block_open, &id);
		if (!entry) {
			ACCOUNT(lost[LOST_table_full], 1);
			return NULL;
		}
		__sync_fetch_and_add(&block_open_requests, 1);
	}
	entry->queued_ns = 0;
	entry->issued_ns = 0;
	entry->tid = task->pid;
	entry->key.since_ns = process->since_ns;
	entry->key.tgid = task->tgid;
	entry->key.role = role_of(process);
	return entry;
}

static __always_inline void forget(__u64 id)
{
	if (!bpf_map_delete_elem(&block_open, &id))
		__sync_fetch_and_add(&block_open_requests, -1);
}

static __always_inline void insert(struct request *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct followed *process = followed_process(task);
	struct open_request *entry = process ? own(request, process, task) : NULL;

	if (tracing && entry)
		entry->queued_ns = bpf_ktime_get_ns();
}

static __always_inline void issue(struct request *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct open_request *entry = NULL;
	__u64 id = (__u64)request;

	if (block_open_requests)
		entry = bpf_map_lookup_elem(&block_open, &id);
	if (entry && entry->issued_ns) {
		/* It is another one at that address: the end of the one before was skipped. */
		ACCOUNT(stale, 1);
		forget(id);
		entry = NULL;
	}
	if (!entry) {
		const struct followed *process = followed_process(task);

		/* With a scheduler it has been inserted, by somebody who is not followed. */
		if (!process || BPF_CORE_READ(request, q, elevator))
			return;
		entry = own(request, process, task);
		if (!entry)
			return;
	}
	entry->key.operation = operation_of(request);
	entry->key.device = device_of(request);
	entry->bytes = request->__data_len;
	entry->issued_ns = bpf_ktime_get_ns();
}

/* The scheduler has made it a part of another request, which has its bytes from now on. */
static __always_inline void merge(struct request *request)
{
	__u64 id = (__u64)request;

	if (!block_open_requests || !bpf_map_lookup_elem(&block_open, &id))
		return;
	ACCOUNT(stale, 1);
	forget(id);
}

BUCKET_FUNCTION(bucket_of, BLOCK_BUCKETS, BLOCK_BOUNDS)

static __always_inline void send(const struct open_request *entry, __u64 now, int error)
{
	struct block_record *record;

	if (now - entry->issued_ns < trace_from_ns) {
		ACCOUNT(events, 1);
		return;
	}
	record = bpf_ringbuf_reserve(&block_events, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	record->head.at_ns = now;
	record->head.since_ns = entry->key.since_ns;
	record->head.tgid = entry->key.tgid;
	record->head.type = 0;
	record->took_ns = now - entry->issued_ns;
	record->queued_ns = entry->queued_ns ? entry->issued_ns - entry->queued_ns : 0;
	record->bytes = entry->bytes;
	record->tid = entry->tid;
	record->device = entry->key.device;
	record->operation = entry->key.operation;
	record->role = entry->key.role;
	record->error = error;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void count(const struct open_request *entry, __u64 took_ns, bool has_failed)
{
	__u32 bucket = bucket_of(took_ns);
	struct block_times *times = bpf_map_lookup_elem(&block_counts, &entry->key);

	if (!times) {
		bpf_map_update_elem(&block_counts, &entry->key, &no_times, BPF_NOEXIST);
		times = bpf_map_lookup_elem(&block_counts, &entry->key);
	}
	if (!times) {
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	barrier_var(bucket);
	if (bucket < BLOCK_BUCKETS)
		__sync_fetch_and_add(&times->durations[bucket], 1);
	__sync_fetch_and_add(&times->nanoseconds, took_ns);
	if (!has_failed)
		__sync_fetch_and_add(&times->bytes, entry->bytes);
	ACCOUNT(events, 1);
}

/* `error` is a blk_status_t, and a negative errno before 5.16 (commit 8a7d267b4a2c). */
static __always_inline void complete(struct request *request, int error, unsigned int bytes)
{
	struct open_request *entry;
	__u64 id = (__u64)request;

	if (!block_open_requests)
		return;
	entry = bpf_map_lookup_elem(&block_open, &id);
	if (!entry || bytes < request->__data_len) /* a part of it */
		return;
	if (!entry->issued_ns)
		ACCOUNT(stale, 1); /* it ends without having been issued */
	else if (tracing)
		send(entry, bpf_ktime_get_ns(), error);
	else
		count(entry, bpf_ktime_get_ns() - entry->issued_ns, error != 0);
	entry->issued_ns = 0; /* should the kernel not delete it */
	forget(id);
}

/* The driver has given it back, and will get it again. */
static __always_inline void requeue(struct request *request)
{
	struct open_request *entry;
	__u64 id = (__u64)request;

	if (!block_open_requests)
		return;
	entry = bpf_map_lookup_elem(&block_open, &id);
	if (entry)
		entry->issued_ns = 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(block_requeue, struct request *request)
{
	tracepoint_guard_begin();
	requeue(request);
	tracepoint_guard_end();
	return 0;
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(block_insert, struct request *request)
{
	tracepoint_guard_begin();
	insert(request);
	tracepoint_guard_end();
	return 0;
}

SEC("tp_btf/block_rq_merge")
int BPF_PROG(block_merge, struct request *request)
{
	tracepoint_guard_begin();
	merge(request);
	tracepoint_guard_end();
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_issue, struct request *request)
{
	tracepoint_guard_begin();
	issue(request);
	tracepoint_guard_end();
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_complete, struct request *request, int error, unsigned int bytes)
{
	tracepoint_guard_begin();
	complete(request, error, bytes);
	tracepoint_guard_end();
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
