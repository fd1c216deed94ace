/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which calls are a part of others, where launches may have probes at both ends, at the driver's
 * entry alone, or both while links are exchanged. */
#ifndef GPUSNOOP_CUDA_COUNTED_LAUNCHES_NESTED_BPF_H
#define GPUSNOOP_CUDA_COUNTED_LAUNCHES_NESTED_BPF_H

#include "bpf/cuda/counted_launches/table.bpf.h"
#include "bpf/cuda/kernel_handles.bpf.h"
#include "bpf/cuda/calls.bpf.h"
#include "bpf/cuda/times.bpf.h"

/* ---- launches whose ends are not seen any more ---- */

/* The open call is a launch that is over. It was made, unless it is one of the runtime that had not
 * come to the driver's when it was detached from: that one is counted there. */
static __always_inline void count_cut_off(struct thread *thread)
{
	const struct call *call = &thread->open.call[0];

	thread->open.depth = 0;
	thread->launch.kernel = argument(call, CUDA_ADDRESS);
	if (thread->capture || !(call->function & CUDA_OF_DRIVER || thread->inner_launches) ||
	    read_shape(thread->launch.grid, call))
		ACCOUNT(stale, 1);
	else if (count_launch(thread))
		ACCOUNT(events, 1);
	else
		ACCOUNT(lost[LOST_table_full], 1);
}

static __always_inline void drop_cut_off(struct thread *thread)
{
	if (is_cut_off(thread))
		count_cut_off(thread);
}

/* ---- one launch and two links ---- */

static __always_inline bool is_driver_launch(__u64 cookie)
{
	return cookie & CUDA_OF_DRIVER && CUDA_LAUNCHES_KERNEL(CUDA_COOKIE_OPERATION(cookie));
}

/* While links are exchanged, the programs of both may run for one launch. The kernel runs the one
 * that was attached last first: it sees to the launch, and the other one leaves it alone. */
static __always_inline bool is_left_to_other(struct thread *thread)
{
	__u64 exchange = *(volatile __u64 *)&launch_exchange;
	__u64 way = !(thread->cookie & CUDA_AT_ENTRY) ? CUDA_TO_ENDS
		    : thread->cookie & CUDA_OF_ONE    ? CUDA_TO_OWN
						      : CUDA_TO_COUNTING;

	if (!(exchange & CUDA_EXCHANGE_WAY) || (exchange & CUDA_EXCHANGE_WAY) == CUDA_TO_NONE)
		return false;
	if ((exchange & CUDA_EXCHANGE_WAY) == way) {
		thread->seen_by_new = exchange;
		return false;
	}
	if (thread->seen_by_new != exchange)
		return false;
	thread->seen_by_new = 0;
	return true;
}

static __always_inline bool is_exchanging(void)
{
	return *(volatile __u64 *)&launch_exchange & CUDA_EXCHANGE_WAY;
}

/* ---- calls inside of others ---- */

/* The runtime launches its kernel by this handle of the driver. */
static __always_inline void learn_kernel(struct thread *thread, __u64 handle, __u64 kernel)
{
	struct launched_kernel *known =
	    &thread->launched[(handle >> 4 ^ handle >> 10) & (LAUNCHED_KERNELS - 1)];
	struct cuda_kernel_record *record;
	const __u64 *learned;

	if (known->handle == handle && known->kernel == kernel)
		return;
	/* Read back from there, as the program's stack is short. */
	set_key(thread, handle, CUDA_LIVE_LAUNCHED);
	thread->words[0] = kernel;
	learned = bpf_map_lookup_elem(&cuda_registered, &thread->key);
	if (!learned || *learned != thread->words[0]) {
		record = bpf_ringbuf_reserve(&cuda_mem_events, sizeof(*record), 0);
		if (!record)
			return; /* the next launch tries again */
		fill_head(&record->head, thread->since_ns, thread->tgid, CUDA_RECORD_KERNEL);
		record->handle = thread->key.address;
		record->stands_for = thread->words[0];
		SUBMIT(record);
		bpf_map_update_elem(&cuda_registered, &thread->key, thread->words, BPF_ANY);
	}
	known->handle = thread->key.address;
	known->kernel = thread->words[0];
}

/* The kernel of a launch of the driver that begins. */
static __always_inline __u64 launched_handle(const struct thread *thread, struct pt_regs *regs)
{
	__u64 first = PT_REGS_PARM1(regs);
	__u64 second = PT_REGS_PARM2(regs);

	/* Else the compiler makes one read of both, as in call_caller(). */
	barrier_var(first);
	barrier_var(second);
	return CUDA_COOKIE_OPERATION(thread->cookie) == CUDA_LAUNCH_CONFIG ? second : first;
}

/* The call that begins is inside of the open one. */
static __always_inline void note_nested(struct thread *thread, struct pt_regs *regs)
{
	const struct call *outer = &thread->open.call[0];
	__u8 operation = CUDA_COOKIE_OPERATION(thread->cookie);

	ACCOUNT(nested, 1);
	thread->nested |= thread->cookie;
	if (!counts_launches)
		return;
	if (ends_kernels(operation))
		begin_epoch(thread);
	if (!is_driver_launch(thread->cookie))
		return;
	thread->inner_launches++;
	if (CUDA_LAUNCHES_KERNEL(CUDA_COOKIE_OPERATION(outer->function)) &&
	    !(outer->function & CUDA_OF_DRIVER))
		learn_kernel(thread, launched_handle(thread, regs), argument(outer, CUDA_ADDRESS));
}

/* ---- what launches contain, and what they take ---- */

/* What a launch takes, of any process. */
__u64 usual_launch_ns;

/* So many of a thread show that each launch makes one of the driver, and what one takes: the first
 * ones load modules. */
#define CHECKED_LAUNCHES 64

/* All CPUs read it, so it is written only where it changes by an eighth. */
static __always_inline void note_usual_time(__u64 ns)
{
	__u64 usual = *(volatile __u64 *)&usual_launch_ns;

	if (ns < usual - usual / 8 || ns > usual + usual / 8)
		*(volatile __u64 *)&usual_launch_ns = ns;
}

/* Without what the probes inside of it cost. */
static __always_inline void note_launch_time(struct thread *thread, const struct call *call)
{
	__u64 ns = thread->ended_ns - call->started_ns;
	__u64 cost = costs.entry + costs.ending;

	ns = ns > cost ? ns - cost : 0;
	thread->launch_ns = thread->launch_ns ? (thread->launch_ns * 7 + ns) / 8 : ns + 1;
	if (thread->checked_launches == CHECKED_LAUNCHES)
		note_usual_time(thread->launch_ns);
}

/* A launch that has succeeded. Where the runtime makes none of the driver's, or two, those of the
 * driver are not those of the program. */
static __always_inline void check_launch(struct thread *thread, const struct call *call)
{
	bool is_driver = call->function & CUDA_OF_DRIVER;
	struct cuda_live_process *process;

	if (!counts_launches)
		return;
	if (keep_times)
		note_launch_time(thread, call);
	if (thread->inner_launches == !is_driver) {
		if (thread->checked_launches == CHECKED_LAUNCHES)
			return;
		thread->checked_launches++;
	}
	/* In a pause, the driver's have no probe. */
	if (may_have_unseen(thread, call->started_ns))
		return;
	process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);
	if (!process)
		return;
	if (thread->inner_launches == !is_driver)
		__sync_fetch_and_add(&process->even_launches, 1);
	else
		__sync_fetch_and_add(
		    is_driver ? &process->odd_driver_launches : &process->odd_launches, 1);
}

/* Is the open call a launch that is over, as another launch of the driver begins? While links are
 * exchanged, its return may have had no probe, and what lies in the place of its return address may
 * be that of the next call, by another tracer's return probe. */
static __always_inline bool is_over(const struct thread *thread, struct pt_regs *regs)
{
	const struct call *call = &thread->open.call[0];

	if (!counts_launches || !is_exchanging() || !is_driver_launch(thread->cookie) ||
	    !CUDA_LAUNCHES_KERNEL(CUDA_COOKIE_OPERATION(call->function)))
		return false;
	return call->function & CUDA_OF_DRIVER ? call->sp <= CALL_SP(regs)
					       : thread->inner_launches > 0;
}

/* Is the call that begins, whose cookie is in thread->cookie, inside of another one of the thread?
 * Forgets the calls that are over. */
static __always_inline bool is_nested(struct thread *thread, struct pt_regs *regs)
{
	__u64 dead;

	drop_cut_off(thread);
	if (!thread->open.depth)
		return false;
	dead = call_drop_dead(bpf_get_current_task_btf(), &thread->open, regs);
	if (dead) {
		if (keep_times) {
			thread->ended_ns = bpf_ktime_get_ns();
			add_call_time(thread);
		}
		/* While links are exchanged, its return may have had no probe. */
		if (counts_launches && is_exchanging() &&
		    CUDA_LAUNCHES_KERNEL(CUDA_COOKIE_OPERATION(thread->open.call[0].function)))
			count_cut_off(thread);
		else
			ACCOUNT(stale, dead);
	}
	if (!thread->open.depth)
		return false;
	if (is_over(thread, regs)) {
		count_cut_off(thread);
		return false;
	}
	note_nested(thread, regs);
	return true;
}

/* By process. The exporter enters them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct cuda_runtime_code);
} cuda_runtimes SEC(".maps");

/* Does the call change which context is current? A launch of the runtime can do that for itself. */
static __always_inline bool chooses_context(__u64 cookie)
{
	__u8 operation = CUDA_COOKIE_OPERATION(cookie);

	return operation >= CUDA_USE_CONTEXT && operation <= CUDA_POP_CONTEXT;
}

/* Is the call that begins a part of a launch that has no probe? */
static __always_inline bool is_of_unseen_launch(const struct thread *thread, struct pt_regs *regs)
{
	const struct cuda_runtime_code *code;

	if (!chooses_context(thread->cookie))
		return false;
	code = bpf_map_lookup_elem(&cuda_runtimes, &thread->tgid);
	return code && call_caller(regs) - code->start < code->end - code->start;
}

#endif
