/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Launches that are counted where they enter the driver: one trap, and an addition in a table. The
 * runtime's functions have no probe then, and the driver's no return probe, so whether a launch
 * failed, and how long it took, is not seen. */
#ifndef GPUSNOOP_CUDA_COUNTED_LAUNCHES_BPF_H
#define GPUSNOOP_CUDA_COUNTED_LAUNCHES_BPF_H

#include "bpf/cuda/graphs/graph_contents.bpf.h"
#include "bpf/cuda/launch_gaps.bpf.h"
#include "bpf/cuda/kernel_handles.bpf.h"
#include "bpf/cuda/times.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CUDA_MAX_COUNTED);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* cleared where the kernel cannot (before 6.1) */
	__type(key, struct cuda_launch_key);
	__type(value, struct cuda_launch_count);
} cuda_launches SEC(".maps");

/* By process. The exporter enters them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct cuda_runtime_code);
} cuda_runtimes SEC(".maps");

/* The table has, or has had, an entry. */
bool has_counted;

/* How often any process has unloaded kernels. */
__u64 unloads;

/* What a launch takes, of any process. */
__u64 usual_launch_ns;
/* A launch of a process whose own are not known takes no more: others can have a full queue. */
#define OTHERS_LAUNCH_NS 20000

/* Calls after which handles of kernels can stand for others. */
static __always_inline bool ends_kernels(__u8 operation)
{
	return operation == CUDA_UNLOAD || operation == CUDA_RESET ||
	       operation == CUDA_RESET_DEVICE || operation == CUDA_DESTROY_CONTEXT;
}

/* Such a call begins. */
static __always_inline void begin_epoch(struct thread *thread)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);

	if (!process)
		return;
	__sync_fetch_and_add(&process->epoch, 1);
	__sync_fetch_and_add(&unloads, 1);
}

/* ---- the table ---- */

static __always_inline void read_epoch(struct thread *thread)
{
	__u64 now = *(volatile __u64 *)&unloads;
	const struct cuda_live_process *process;

	if (thread->unloads == now)
		return;
	process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);
	thread->launch.epoch = process ? process->epoch : 0;
	thread->unloads = now;
}

static __always_inline struct cuda_launch_count *add_launch_count(struct thread *thread)
{
	struct cuda_live_process *process = bpf_map_lookup_elem(&cuda_procs, &thread->tgid);
	struct cuda_launch_count *fresh = (struct cuda_launch_count *)thread->words;

	if (!process || __sync_fetch_and_add(&process->counted, 1) >= CUDA_MAX_COUNTED_OF_PROCESS) {
		thread->launch.kernel = 0;
		__builtin_memset(thread->launch.grid, 0, sizeof(thread->launch.grid));
		__builtin_memset(thread->launch.block, 0, sizeof(thread->launch.block));
	}
	has_counted = true;
	fresh->launches = 0;
	fresh->first_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&cuda_launches, &thread->launch, fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&cuda_launches, &thread->launch);
}

/* The launch in thread->launch: its kernel and its shape. */
static __always_inline void count_launch(struct thread *thread)
{
	struct cuda_launch_count *count;

	thread->launch.since_ns = thread->since_ns;
	thread->launch.tgid = thread->tgid;
	thread->launch.device = thread->chosen.ordinal_plus_1 - 1;
	read_epoch(thread);
	count = bpf_map_lookup_elem(&cuda_launches, &thread->launch);
	if (!count)
		count = add_launch_count(thread);
	if (!count) {
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	__sync_fetch_and_add(&count->launches, 1);
	note_launch(thread);
	ACCOUNT(events, 1);
}

/* ---- launches whose ends are not seen any more ---- */

/* The open call is a launch that is over. It was made, unless it is one of the runtime that had not
 * come to the driver's when it was detached from: that one is counted there. */
static __always_inline void count_cut_off(struct thread *thread)
{
	const struct call *call = &thread->open.call[0];

	thread->open.depth = 0;
	thread->launch.kernel = argument(call, CUDA_ADDRESS);
	if (!thread->capture && (call->function & CUDA_OF_DRIVER || thread->inner_launches) &&
	    !read_shape(thread->launch.grid, call))
		count_launch(thread);
	else
		ACCOUNT(stale, 1);
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

/* ---- the program ---- */

/* A launch of the driver that a stream captures is a record, as any captured call. */
static __always_inline bool is_captured(struct thread *thread, struct pt_regs *regs)
{
	struct call *call = call_begin(&thread->open, regs, thread->cookie);

	if (!call)
		return false;
	call_read_stack(call, regs);
	thread->capture = 0;
	note_capture(thread, call);
	thread->open.depth = 0;
	if (!thread->capture)
		return false;
	thread->ended_ns = call->started_ns = bpf_ktime_get_ns();
	thread->result = 0;
	thread->nested = 0;
	finish_captured(thread, call);
	return true;
}

/* Nonzero: the shape could not be read. */
static __always_inline long read_launch(struct thread *thread, struct pt_regs *regs)
{
	struct cuda_launch_key *launch = &thread->launch;
	struct call *call = &thread->open.call[0];

	launch->kernel = launched_handle(thread, regs);
	if (CUDA_COOKIE_OPERATION(thread->cookie) == CUDA_LAUNCH_CONFIG)
		return bpf_probe_read_user(launch->grid, sizeof(launch->grid) * 2,
					   (const void *)PT_REGS_PARM1(regs));
	call_read_seventh(call, regs);
	launch->grid[0] = PT_REGS_PARM2(regs);
	launch->grid[1] = PT_REGS_PARM3(regs);
	launch->grid[2] = PT_REGS_PARM4(regs);
	launch->block[0] = PT_REGS_PARM5(regs);
	launch->block[1] = PT_REGS_PARM6(regs);
	launch->block[2] = call->argument[7];
	return 0;
}

static __always_inline __u64 usual_time(const struct thread *thread)
{
	__u64 usual_ns;

	if (thread->checked_launches == CHECKED_LAUNCHES)
		return thread->launch_ns;
	usual_ns = *(volatile __u64 *)&usual_launch_ns;
	return usual_ns < OTHERS_LAUNCH_NS ? usual_ns : OTHERS_LAUNCH_NS;
}

/* The launch before the one that begins at `now_ns` took as long as the thread's others, or as
 * those of all; or less, as it was over before the thread's next call. */
static __always_inline void add_counted_time(struct thread *thread, __u64 now_ns)
{
	__u64 took_ns = now_ns - thread->counted_ns;
	__u64 usual_ns = usual_time(thread);
	__u64 in_calls_ns = 0;
	__u64 since_ns;

	for (int i = 0; i < HOST_PHASE_SLOTS; i++)
		in_calls_ns += thread->in_calls.ns[i];
	since_ns = in_calls_ns - thread->counted_in_calls;
	took_ns = took_ns > since_ns ? took_ns - since_ns : 0;
	if (took_ns > usual_ns)
		took_ns = usual_ns;
	if (!took_ns)
		took_ns = 1; /* shows that the thread launches */
	thread->in_calls.ns[HOST_launch] += took_ns;
	thread->counted_in_calls = in_calls_ns + took_ns;
}

/* As the thread's last call, for those who ask what it did last. */
static __always_inline void note_counted(struct thread *thread)
{
	struct call *call = &thread->open.call[0];

	call->function = thread->cookie;
	call->started_ns = bpf_ktime_get_ns();
	if (keep_times && thread->in_calls.since_ns)
		add_counted_time(thread, call->started_ns);
	thread->counted_ns = call->started_ns;
	if (keep_times)
		end_gap_at_entry(thread, call);
}

static __always_inline void see_entry(struct pt_regs *regs, __u64 cookie)
{
	struct thread *thread = bpf_task_storage_get(&cuda_threads, bpf_get_current_task_btf(),
						     NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_no_state], 1);
		return;
	}
	thread->cookie = cookie;
	if (!thread->since_ns)
		enter_process(thread);
	if (thread->since_ns)
		add_cuda_cost(thread, cost_of_entry(thread->cookie));
	thread->cookie &= ~CALL_STEPPED;
	if (is_left_to_other(thread) || is_nested(thread, regs))
		return;
	ACCOUNT(entered, 1);
	if (!thread->since_ns)
		return;
	if (keep_times && !thread->in_calls.since_ns)
		begin_times(thread);
	add_cuda_cost(thread, costs.record);
	if (is_capturing() && is_captured(thread, regs))
		return;
	if (read_launch(thread, regs)) {
		ACCOUNT(lost[LOST_fault], 1);
		return;
	}
	count_launch(thread);
	note_counted(thread);
}

static __always_inline int guarded_count(struct pt_regs *regs, __u64 cookie)
{
	guard_begin();
	see_entry(regs, cookie);
	guard_end();
	return 0;
}

SEC("uprobe.multi")
int cuda_count(struct pt_regs *regs)
{
	return guarded_count(regs, multi_cookie(regs));
}

SEC("uprobe")
int cuda_perf_count(struct pt_regs *regs)
{
	return guarded_count(regs, bpf_get_attach_cookie(regs));
}

#endif
