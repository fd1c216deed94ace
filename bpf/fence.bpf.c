// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* DMA fences of the processes to trace, and their waits for any fence. What a driver calls itself
 * and its timeline can only be had from a tracepoint's own record, as the kernel asks the driver;
 * where the fields are in the record, the exporter reads from the tracepoint's format. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/fence.h"
#include "bpf/lib/target.bpf.h"
#include "bpf/lib/traced.bpf.h"

/* Where the fields lie in the record. */
const volatile __u32 driver_at = 8;
const volatile __u32 timeline_at = 12;
const volatile __u32 context_at = 16;
const volatile __u32 seqno_at = 20;

/* Waits inside each other: a fence that stands for others waits for those. */
#define MAX_WAITS 4

/* The low halves, which are always known: what of a fence is noted at one event, may not be at
 * another. Two that share them at one time would be 2^32 contexts or numbers apart. */
struct fence_key {
	__u32 context;
	__u32 seqno;
};

struct wait {
	struct fence_id fence;
	__u64 started_ns;
};

struct thread {
	struct traced_thread traced;
	__u64 depth;
	struct wait waits[MAX_WAITS];
	struct fence_known fresh; /* scratch */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct fence_key);
	__type(value, struct fence_known);
} fences SEC(".maps");

static __always_inline __u32 field(const void *context, __u32 at)
{
	__u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), context + (at & 4095));
	return value;
}

/* The fence that a tracepoint is about to tell of. Its record has the low 32 bits of the context
 * and of the number only, and a program that gets the record has no way to the fence: one that gets
 * the fence has been there before it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fence_id);
} present SEC(".maps");

#define NOTE(name)                                                                                 \
	SEC("tp_btf/dma_fence_" #name)                                                             \
	int BPF_PROG(note_##name, struct dma_fence *fence)                                         \
	{                                                                                          \
		__u32 zero = 0;                                                                    \
		struct fence_id *id = bpf_map_lookup_elem(&present, &zero);                        \
                                                                                                   \
		if (id) {                                                                          \
			id->context = fence->context;                                              \
			id->seqno = fence->seqno;                                                  \
		}                                                                                  \
		return 0;                                                                          \
	}
FENCE_EVENTS(NOTE)

static __always_inline void read_key(struct fence_key *key, const void *context)
{
	key->context = field(context, context_at);
	key->seqno = field(context, seqno_at);
}

static __always_inline bool is_of(const struct fence_id *id, const struct fence_key *key)
{
	return (__u32)id->context == key->context && (__u32)id->seqno == key->seqno;
}

/* All that can be known of a fence: what was noted just now or, if that is another one's (an
 * interrupt had something to tell in between, or somebody else was at the tracepoint before us),
 * what was known before; NULL: nothing was. */
static __always_inline void identify(struct fence_id *id, const struct fence_key *key,
				     const struct fence_id *known)
{
	__u32 zero = 0;
	struct fence_id *noted = bpf_map_lookup_elem(&present, &zero);

	if (noted && is_of(noted, key)) {
		*id = *noted;
	} else if (known) {
		*id = *known;
	} else {
		id->context = key->context;
		id->seqno = key->seqno;
	}
}

static __always_inline void read_names(struct fence_names *names, const void *context)
{
	/* __data_loc: the place in the record, and in the upper half the length. */
	__u32 at = field(context, driver_at) & 0xffff;

	__builtin_memset(names, 0, sizeof(*names));
	bpf_probe_read_kernel_str(names->driver, sizeof(names->driver), context + at);
	at = field(context, timeline_at) & 0xffff;
	bpf_probe_read_kernel_str(names->timeline, sizeof(names->timeline), context + at);
}

/* The current thread, if its process is one to trace. */
static __always_inline struct thread *current_thread(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);

	if (!thread)
		thread = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_no_state], 1);
		return NULL;
	}
	if (!thread->traced.since_ns && !enter_traced(&thread->traced, task)) {
		ACCOUNT(entered, 1);
		return NULL;
	}
	return thread;
}

static __always_inline struct fence_record *reserve(enum fence_event event, __u64 since_ns,
						    __u32 tgid, const struct fence_key *key,
						    const struct fence_id *known)
{
	struct fence_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	ACCOUNT(entered, 1);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return NULL;
	}
	fill_traced(&record->head, since_ns, tgid, FENCE_RECORD + event);
	identify(&record->fence, key, known);
	record->tid = 0;
	record->has_duration = 0;
	record->nanoseconds = 0;
	return record;
}

static __always_inline void submit(struct fence_record *record)
{
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void name(struct fence_record *record, void *ctx,
				 const struct fence_known *known)
{
	if (known)
		record->names = known->names;
	else
		read_names(&record->names, ctx);
}

/* Notes whose a fence is. */
static __always_inline void begin_fence(void *ctx, const struct fence_key *key)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fence_record *record;
	struct thread *thread;

	if (!target_since(task))
		return;
	thread = current_thread(task);
	if (!thread)
		return;
	thread->fresh.since_ns = thread->traced.since_ns;
	thread->fresh.tgid = thread->traced.tgid;
	thread->fresh.emitted_ns = 0;
	thread->fresh.reserved = 0;
	identify(&thread->fresh.id, key, NULL);
	read_names(&thread->fresh.names, ctx);
	/* A key that is there already is of one whose end was not seen: this one is newer. */
	if (bpf_map_update_elem(&fences, key, &thread->fresh, BPF_ANY)) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	record = reserve(FENCE_init, thread->traced.since_ns, thread->traced.tgid, key,
			 &thread->fresh.id);
	if (!record)
		return;
	record->names = thread->fresh.names;
	submit(record);
}

/* Whose is an event of a fence whose init was not seen? What happens to it may happen in any
 * context, so only the events that are the current process's own doing are its. */
static __always_inline bool owner_of_unknown(enum fence_event event, __u64 *since_ns, __u32 *tgid)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool is_own = event == FENCE_emit || event == FENCE_enable_signal;
	struct thread *thread;

	if (!is_own || !target_since(task)) {
		*since_ns = *tgid = 0;
		return target_kinds & TARGET_EVERYTHING;
	}
	thread = current_thread(task);
	if (!thread)
		return false;
	*since_ns = thread->traced.since_ns;
	*tgid = thread->traced.tgid;
	return true;
}

static __always_inline void on_event(void *ctx, enum fence_event event)
{
	struct fence_known *known;
	struct fence_record *record;
	struct fence_key key;
	__u64 since_ns;
	__u32 tgid;

	read_key(&key, ctx);
	if (event == FENCE_init) {
		begin_fence(ctx, &key);
		return;
	}
	known = bpf_map_lookup_elem(&fences, &key);
	if (known) {
		since_ns = known->since_ns;
		tgid = known->tgid;
	} else if (!owner_of_unknown(event, &since_ns, &tgid)) {
		return;
	}
	record = reserve(event, since_ns, tgid, &key, known ? &known->id : NULL);
	if (record) {
		name(record, ctx, known);
		if (event == FENCE_signaled && known && known->emitted_ns) {
			record->has_duration = 1;
			record->nanoseconds = record->head.at_ns - known->emitted_ns;
		}
		submit(record);
	}
	if (event == FENCE_emit && known)
		known->emitted_ns = bpf_ktime_get_ns();
	if (event == FENCE_destroy && known)
		bpf_map_delete_elem(&fences, &key);
}

SEC("tp/dma_fence/dma_fence_wait_start")
int on_wait_start(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fence_record *record;
	struct thread *thread;
	struct fence_key key;
	struct wait *wait;

	if (!target_since(task))
		return 0;
	thread = current_thread(task);
	if (!thread)
		return 0;
	read_key(&key, ctx);
	if (thread->depth >= MAX_WAITS) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_too_deep], 1);
		return 0;
	}
	wait = &thread->waits[thread->depth & (MAX_WAITS - 1)];
	identify(&wait->fence, &key, NULL);
	wait->started_ns = bpf_ktime_get_ns();
	thread->depth++;
	record = reserve(FENCE_wait_start, thread->traced.since_ns, thread->traced.tgid, &key,
			 &wait->fence);
	if (!record)
		return 0;
	record->tid = thread->traced.tid;
	name(record, ctx, bpf_map_lookup_elem(&fences, &key));
	submit(record);
	return 0;
}

/* Comes at the end of every wait, also of those that were interrupted or took too long. */
SEC("tp/dma_fence/dma_fence_wait_end")
int on_wait_end(void *ctx)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	struct fence_record *record;
	struct fence_key key;
	struct wait *wait;
	__u64 at;

	if (!thread) {
		if (began_before_tracing(task))
			ACCOUNT(unmatched, 1);
		return 0;
	}
	read_key(&key, ctx);
	at = thread->depth - 1;
	wait = &thread->waits[at & (MAX_WAITS - 1)];
	if (at >= MAX_WAITS || !is_of(&wait->fence, &key)) {
		ACCOUNT(unmatched, 1);
		return 0;
	}
	thread->depth = at;
	record = reserve(FENCE_wait_end, thread->traced.since_ns, thread->traced.tgid, &key,
			 &wait->fence);
	if (!record)
		return 0;
	record->tid = thread->traced.tid;
	record->has_duration = 1;
	record->nanoseconds = now_ns - wait->started_ns;
	name(record, ctx, bpf_map_lookup_elem(&fences, &key));
	submit(record);
	return 0;
}

#define ON(name)                                                                                   \
	SEC("tp/dma_fence/dma_fence_" #name)                                                       \
	int on_##name(void *ctx)                                                                   \
	{                                                                                          \
		on_event(ctx, FENCE_##name);                                                       \
		return 0;                                                                          \
	}

ON(init)
ON(emit)
ON(enable_signal)
ON(signaled)
ON(destroy)

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_exit, struct task_struct *task)
{
	bpf_task_storage_delete(&threads, task);
	if (task->signal->live.counter == 0)
		leave_traced(task->tgid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	bpf_task_storage_delete(&threads, task);
	leave_traced(task->tgid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
