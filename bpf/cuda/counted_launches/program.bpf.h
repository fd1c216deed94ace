/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Launches that are counted where they enter the driver: one trap, and an addition in a table. The
 * runtime's functions have no probe then, and the driver's no return probe, so whether a launch
 * failed, and how long it took, is not seen. */
#ifndef GPUSNOOP_CUDA_COUNTED_LAUNCHES_PROGRAM_BPF_H
#define GPUSNOOP_CUDA_COUNTED_LAUNCHES_PROGRAM_BPF_H

#include "bpf/cuda/counted_launches/nested.bpf.h"
#include "bpf/cuda/graphs/graph_contents.bpf.h"
#include "bpf/cuda/launch_gaps.bpf.h"
#include "bpf/cuda/times.bpf.h"

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

/* A launch of a process whose own are not known takes no more: others can have a full queue. */
#define OTHERS_LAUNCH_NS 20000

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

	if (!keep_times && !follow)
		return; /* nobody asks */
	call->function = thread->cookie;
	call->started_ns = bpf_ktime_get_ns();
	if (keep_times && thread->in_calls.since_ns)
		add_counted_time(thread, call->started_ns);
	thread->counted_ns = call->started_ns;
	if (keep_times)
		end_gap_at_entry(thread, call);
}

static __always_inline void see_entry(struct pt_regs *regs, struct task_struct *task, __u64 cookie)
{
	struct thread *thread =
	    bpf_task_storage_get(&cuda_threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

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
	if (!thread->since_ns) {
		ACCOUNT(entered, 1);
		return;
	}
	if (keep_times && !thread->in_calls.since_ns)
		begin_times(thread);
	add_cuda_cost(thread, costs.record);
	if (is_capturing() && is_captured(thread, regs)) {
		ACCOUNT(entered, 1);
		return;
	}
	if (read_launch(thread, regs)) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_fault], 1);
		return;
	}
	if (count_launch(thread)) {
		ACCOUNT(counted, 1);
	} else {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_table_full], 1);
	}
	note_counted(thread);
}

static __always_inline int guarded_count(struct pt_regs *regs, struct task_struct *task,
					 __u64 cookie)
{
	guard_begin();
	see_entry(regs, task, cookie);
	guard_end();
	return 0;
}

SEC("uprobe.multi")
int cuda_count(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return guarded_count(regs, task, multi_cookie(task, regs));
}

SEC("uprobe")
int cuda_perf_count(struct pt_regs *regs)
{
	__u64 cookie = bpf_get_attach_cookie(regs);

	return guarded_count(regs, bpf_get_current_task_btf(), cookie);
}

#endif
