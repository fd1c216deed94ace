// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Exits of the virtual machines that followed processes run. All of these tracepoints are reached
 * by the thread of the virtual CPU, in KVM_RUN. */
#define PROBE kvm

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/host_kvm.h"
#include "bpf/lib/counted_times.bpf.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"

#define EINTR 4

/* A record of each event instead of counts, for a trace. */
const volatile bool tracing = false;

RING_MAP(kvm_events, 256 << 10);

/* Entries are made with interrupts off, so none may be allocated then. */
HASH_MAP(kvm_counts, 16384, struct kvm_key, struct counted_times);

/* A virtual CPU outside of its guest, by thread. */
struct outside {
	__u64 since_ns;	 /* CLOCK_MONOTONIC; 0: it is inside */
	__u64 halted_ns; /* of this time */
	__u64 thread_ns; /* when its thread began, as ids are used again */
};

LRU_MAP(kvm_outside, 16384, __u32, struct outside);

static const struct outside not_outside;

static __always_inline void count(const struct followed *process, struct task_struct *task,
				  enum kvm_event event, __u32 reason, __u64 nanoseconds)
{
	struct kvm_key key = {.since_ns = process->since_ns,
			      .tgid = task->tgid,
			      .event = event,
			      .role = role_of(process),
			      .reason = reason};

	count_time(&kvm_counts, &key, nanoseconds);
}

static __always_inline void send(const struct followed *process, struct task_struct *task,
				 enum kvm_event event, __u32 reason, __u64 nanoseconds)
{
	struct kvm_record *record = bpf_ringbuf_reserve(&kvm_events, sizeof(*record), 0);

	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	record->head.at_ns = bpf_ktime_get_ns();
	record->head.since_ns = process->since_ns;
	record->head.tgid = task->tgid;
	record->head.type = 0;
	record->nanoseconds = nanoseconds;
	record->tid = task->pid;
	record->reason = reason;
	record->event = event;
	record->role = role_of(process);
	record->unused = 0;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

static __always_inline void happens(enum kvm_event event, __u32 reason, __u64 nanoseconds)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct followed *process = followed_process(task);

	if (!process)
		return;
	ACCOUNT(entered, 1);
	if (tracing)
		send(process, task, event, reason, nanoseconds);
	else
		count(process, task, event, reason, nanoseconds);
}

static __always_inline struct outside *outside_of(struct task_struct *task, bool create)
{
	__u32 tid = task->pid;
	struct outside *outside = bpf_map_lookup_elem(&kvm_outside, &tid);

	if (!outside && create) {
		bpf_map_update_elem(&kvm_outside, &tid, &not_outside, BPF_NOEXIST);
		outside = bpf_map_lookup_elem(&kvm_outside, &tid);
	}
	return outside;
}

SEC("tp_btf/kvm_exit")
int BPF_PROG(kvm_leaves)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct outside *outside;

	if (!followed_process(task))
		return 0;
	outside = outside_of(task, true);
	if (!outside)
		return 0; /* then it has no time, and is not counted */
	outside->halted_ns = 0;
	outside->thread_ns = task->start_boottime;
	outside->since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/kvm_entry")
int BPF_PROG(kvm_enters)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct outside *outside;
	__u64 took_ns;

	if (!followed_process(task))
		return 0;
	outside = outside_of(task, false);
	if (!outside || !outside->since_ns || outside->thread_ns != task->start_boottime)
		return 0;
	took_ns = bpf_ktime_get_ns() - outside->since_ns;
	took_ns -= outside->halted_ns < took_ns ? outside->halted_ns : took_ns;
	outside->since_ns = 0;
	happens(KVM_EXIT, 0, took_ns);
	return 0;
}

/* `error` is what KVM_RUN returns. The time that follows is in that of the exit. */
SEC("tp_btf/kvm_userspace_exit")
int BPF_PROG(kvm_returns, __u32 reason, int error)
{
	if (error < 0)
		reason = error == -EINTR ? KVM_REASON_SIGNAL : KVM_REASON_ERROR;
	happens(KVM_USERSPACE, reason, 0);
	return 0;
}

/* First the thread polls for an interrupt, then it sleeps (`waited`). */
SEC("tp_btf/kvm_vcpu_wakeup")
int BPF_PROG(kvm_wakes, __u64 nanoseconds, bool waited, bool valid)
{
	struct outside *outside = outside_of(bpf_get_current_task_btf(), false);

	if (outside)
		outside->halted_ns += nanoseconds;
	happens(KVM_HALT, waited, nanoseconds);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
