/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The gaps in which a process gives its GPU nothing, as the thread sees them that ends them. */
#ifndef GPUSNOOP_CUDA_LAUNCH_GAPS_BPF_H
#define GPUSNOOP_CUDA_LAUNCH_GAPS_BPF_H

#include "bpf/cuda/process.bpf.h"
#include "bpf/cuda/threads.bpf.h"
#include "bpf/host_time/accounts.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"

/* Gaps this long or longer are explained by the thread's states. */
const volatile __u64 gap_min_ns = 1000000;

/* Sends a record of each of these. */
const volatile bool send_gaps = false;

/* A thread publishes the ends of its submissions this often, and each end of another kind than the
 * one before. Shorter gaps are the thread's own, whatever other threads submit meanwhile. */
#define PUBLISH_NS 500000

#define DRAIN_BITS 3

static __always_inline bool submits(const struct call *call)
{
	__u8 operation = CUDA_COOKIE_OPERATION(call->function);

	return CUDA_IS_LAUNCH(operation) || CUDA_IS_COPY(operation);
}

static __always_inline bool waits(const struct call *call)
{
	return CUDA_COOKIE_PHASE(call->function) == HOST_wait;
}

/* Has another thread published a submission since then? */
static __always_inline bool is_submitted_since(const struct host_account *account, __u64 since_ns)
{
	const struct followed *process = bpf_map_lookup_elem(&follow_procs, &account->process.tgid);
	__u64 submitted;

	if (!process || process->since_ns != account->process.since_ns)
		return false;
	submitted = *(volatile __u64 *)&process->submitted;
	return (submitted & DRAIN_BITS) == HOST_DRAIN_none && submitted > since_ns;
}

/* A wait makes sure of what was submitted before it, and not of what another thread submits
 * meanwhile. */
static __always_inline enum host_drain drain_of(const struct host_account *account,
						const struct call *call)
{
	if (!waits(call) || is_submitted_since(account, call->started_ns))
		return HOST_DRAIN_none;
	return CUDA_COOKIE_OPERATION(call->function) == CUDA_WAIT_DEVICE ? HOST_DRAIN_device
									 : HOST_DRAIN_stream;
}

/* The process's table keeps both in one word, which threads write without a lock: the time, and in
 * its lowest bits the kind. */
static __always_inline void publish(struct host_account *account)
{
	struct launch_gap *gap = &account->gap;
	struct followed *process;

	gap->published_ns = gap->since_ns;
	process = bpf_map_lookup_elem(&follow_procs, &account->process.tgid);
	if (process && process->since_ns == account->process.since_ns &&
	    process->submitted < gap->since_ns)
		process->submitted = (gap->since_ns & ~DRAIN_BITS) | gap->drain;
}

/* The open call, which ended at thread->ended_ns, was a submission or a wait. */
static __always_inline void begin_gap(struct host_account *account, struct thread *thread)
{
	struct launch_gap *gap = &account->gap;
	__u64 drain = drain_of(account, &thread->open.call[0]);
	bool is_other = drain != gap->drain;

	thread->gap_is_known = 1;
	gap->since_ns = thread->ended_ns;
	gap->calls_ns = 0;
	gap->drain = drain;
	gap->function = CUDA_COOKIE_FUNCTION(thread->open.call[0].function);
	*(volatile __u64 *)&gap->number += 1;
	barrier();
	if (is_other || gap->since_ns - gap->published_ns > PUBLISH_NS)
		publish(account);
}

/* Another thread may have submitted something after this one's last submission. */
static __always_inline void cut_gap(struct host_account *account, __u64 until_ns)
{
	struct ended_gap *ended = &account->ended;
	struct followed *process = bpf_map_lookup_elem(&follow_procs, &account->process.tgid);
	__u64 submitted;

	if (!process || process->since_ns != account->process.since_ns)
		return;
	submitted = *(volatile __u64 *)&process->submitted;
	if ((submitted & ~DRAIN_BITS) <= until_ns - ended->own_ns)
		return;
	ended->drain = submitted & DRAIN_BITS;
	ended->record.before = HOST_GAP_OTHER_THREAD;
	ended->ns = until_ns > submitted ? until_ns - submitted : 0;
}

/* The submission that ends the present gap began at `until_ns`. */
static __always_inline void measure_gap(struct host_account *account, __u64 until_ns)
{
	struct ended_gap *ended = &account->ended;

	ended->number = account->gap.number;
	ended->calls_ns = account->gap.calls_ns;
	ended->drain = account->gap.drain;
	ended->own_ns = until_ns > account->gap.since_ns ? until_ns - account->gap.since_ns : 0;
	ended->ns = ended->own_ns;
	ended->record.before = account->gap.function;
	if (ended->own_ns > PUBLISH_NS)
		cut_gap(account, until_ns);
}

static __always_inline void count_gap(struct host_account *account)
{
	__u64 drain = account->ended.drain;

	barrier_var(drain);
	if (drain >= HOST_DRAIN_COUNT)
		return;
	account->of_device.gap_ns[drain] += account->ended.ns;
	account->of_device.gaps[drain][span_bucket(account->ended.ns)] += 1;
}

/* The thread's last time off the CPU is not in any account yet, as the thread has not left the CPU
 * since. If it was in the gap that has ended, it is counted there now, and the hook does not do it
 * later. If the hook runs meanwhile, it has done it, and has noted another gap. */
static __always_inline void take_open_interval(struct host_account *account)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct ended_gap *ended = &account->ended;
	struct gap_states *states;

	split_off(&ended->off, &account->left, task,
		  task->sched_info.last_arrival - account->left.at_ns);
	fill_block(&ended->last, account, ended->off.blocked_ns);
	if (__sync_val_compare_and_swap(&account->in_gap, ended->number, NO_GAP) != ended->number)
		return;
	states = gap_states_of(account, ended->number);
	if (ended->last.state < HOST_STATE_COUNT)
		states->ns[ended->last.state] += ended->off.blocked_ns;
	note_longest(states, &ended->last);
	states->ns[HOST_STATE_throttled] += ended->off.throttled_ns;
	states->ns[HOST_STATE_runnable] += ended->off.ready_ns;
}

/* Where the process's gap is shorter than the thread's own, each state is taken in proportion. */
static __always_inline __u64 share_of(const struct ended_gap *ended, __u64 ns)
{
	__u32 shift = ended->own_ns >> 30 ? 20 : 0; /* the product has 64 bits */

	if (ended->ns == ended->own_ns || !(ended->own_ns >> shift))
		return ns;
	return ns * (ended->ns >> shift) / (ended->own_ns >> shift);
}

/* The rest of the gap, the thread ran. */
static __always_inline void explain_gap(struct host_account *account)
{
	struct ended_gap *ended = &account->ended;
	__u64 *of_gap = ended->record.state_ns;
	__u64 drain = ended->drain;
	const __u64 *from;
	__u64 *to;
	__u64 part;

	take_open_interval(account);
	barrier_var(drain);
	if (drain >= HOST_DRAIN_COUNT)
		return;
	to = account->of_device.gap_state_ns[drain];
	from = gap_states_of(account, ended->number)->ns;
	ended->left_ns = ended->ns;
	for (int i = 0; i < HOST_STATE_COUNT; i++) {
		part = share_of(ended, from[i]);
		if (part > ended->left_ns)
			part = ended->left_ns;
		ended->left_ns -= part;
		of_gap[i] = part;
		to[i] += part;
	}
	part = share_of(ended, ended->calls_ns);
	if (part > ended->left_ns)
		part = ended->left_ns;
	of_gap[HOST_GAP_CUDA_CALL] = part;
	to[HOST_GAP_CUDA_CALL] += part;
	of_gap[HOST_STATE_running] += ended->left_ns - part;
	to[HOST_STATE_running] += ended->left_ns - part;
}

/* If another thread has made the gap shorter, the block may lie before it in part. */
static __always_inline void take_longest(struct ended_gap *ended, const struct gap_states *states)
{
	ended->record.longest = states->longest;
	if (ended->record.longest.ns > ended->ns)
		ended->record.longest.ns = ended->ns;
}

static __always_inline void send_gap(struct host_account *account, const struct call *after)
{
	struct ended_gap *ended = &account->ended;
	struct host_gap_record *record = &ended->record;

	record->process = account->process;
	record->ended_ns = after->started_ns;
	record->ns = ended->ns;
	record->tid = bpf_get_current_pid_tgid();
	record->drain = ended->drain;
	record->device = account->device.device;
	record->after = CUDA_COOKIE_FUNCTION(after->function);
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	take_longest(ended, &account->gap_states[ended->number & 1]);
	account->times.gap_records += 1;
	if (bpf_ringbuf_output(&cuda_gaps, record, sizeof(*record), BPF_RB_NO_WAKEUP))
		account->times.gap_records_lost += 1;
}

/* The gap that a submission ends is of the device that it is for. */
static __always_inline void use_device(struct host_account *account, const struct thread *thread)
{
	__s32 device = thread->chosen.ordinal_plus_1 - 1;

	if (account->device.device == device)
		return;
	hand_over_device(account);
	account->device.device = device;
}

/* The open call of a launching thread ended at thread->ended_ns. The device still has nothing to do
 * after a second wait, if no other thread has submitted anything. A call that failed, or that a
 * stream captures, submits nothing. */
static __always_inline void end_gap(struct thread *thread)
{
	const struct call *call = &thread->open.call[0];
	struct host_account *account =
	    bpf_task_storage_get(&cuda_times, bpf_get_current_task_btf(), NULL, 0);

	if (!account)
		return;
	if (thread->result || thread->capture || !(submits(call) || waits(call)) ||
	    (!submits(call) && account->gap.drain == HOST_DRAIN_device &&
	     !is_submitted_since(account, account->gap.since_ns))) {
		account->gap.calls_ns += thread->ended_ns - call->started_ns;
		return;
	}
	/* Where not all launches are seen, this may not be the one that ends the gap. */
	if (!submits(call) || !account->gap.number || !thread->gap_is_known ||
	    may_have_unseen(thread, account->gap.since_ns)) {
		begin_gap(account, thread);
		return;
	}
	use_device(account, thread);
	measure_gap(account, call->started_ns);
	count_gap(account);
	begin_gap(account, thread);
	if (account->ended.ns < gap_min_ns)
		return;
	explain_gap(account);
	if (send_gaps)
		send_gap(account, call);
}

/* A launch that is only counted at its entry, so nobody knows when it ends. If the start of the gap
 * before it is known, that gap ends here. The next known gap starts when another submission or wait
 * ends. */
static __always_inline void end_gap_at_entry(struct thread *thread, const struct call *call)
{
	struct host_account *account;

	if (!thread->gap_is_known && call->started_ns - thread->published_ns < PUBLISH_NS)
		return;
	account = bpf_task_storage_get(&cuda_times, bpf_get_current_task_btf(), NULL, 0);
	if (!account)
		return;
	if (thread->gap_is_known && account->gap.number &&
	    !may_have_unseen(thread, account->gap.since_ns)) {
		use_device(account, thread);
		measure_gap(account, call->started_ns);
		count_gap(account);
		if (account->ended.ns >= gap_min_ns) {
			explain_gap(account);
			if (send_gaps)
				send_gap(account, call);
		}
	}
	thread->gap_is_known = 0;
	account->gap.since_ns = call->started_ns;
	account->gap.drain = HOST_DRAIN_none;
	account->gap.calls_ns = 0;
	account->gap.function = CUDA_COOKIE_FUNCTION(call->function);
	*(volatile __u64 *)&account->gap.number += 1;
	barrier();
	publish(account);
	thread->published_ns = call->started_ns;
}

#endif
