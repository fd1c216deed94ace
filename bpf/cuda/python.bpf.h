/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The stacks of Python's functions at allocations (bpf/lib/python/stacks.bpf.h). An entry whose
 * process has an interpreter ends with a tail call to the walk; of other processes, an allocation
 * costs the failed lookup. */
#ifndef GPUSNOOP_CUDA_PYTHON_BPF_H
#define GPUSNOOP_CUDA_PYTHON_BPF_H

#include "bpf/cuda/process.bpf.h"

#define PYTHON_PROCESS(thread) (&(thread)->python_key)
#define PYTHON_STACK(thread)   ((thread)->python)
#include "bpf/lib/python/stacks.bpf.h"

#define CUDA_PYTHON 2 /* in what cuda_enter() returns, besides 1 */

/* Of an allocation. */
static __always_inline void begin_python(struct thread *thread)
{
	thread->python = PYTHON_STACK_NONE;
	thread->python_key.since_ns = thread->since_ns;
	thread->python_key.tgid = thread->tgid;
	if (python_stacks && interpreter_of(thread))
		thread->follows = CUDA_PYTHON;
}

static __always_inline long continue_entry(struct pt_regs *regs, long skip)
{
	if (python_stacks && skip & CUDA_PYTHON)
		bpf_tail_call(regs, &cuda_tails, 0);
	return skip & ~CUDA_PYTHON;
}

/* For a trace, which adds the programs that look where calls were made that have failed
 * (bpf/dying/). A table holds programs of one kind: those at returns and at exits can be of two. */
const volatile bool follow_failed = false;

#define CUDA_FAILED 4 /* in thread->follows */

#define TABLE_OF_ONE_PROGRAM(name)                                                                 \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY);                                             \
		__uint(max_entries, 1);                                                            \
		__type(key, __u32);                                                                \
		__type(value, __u32);                                                              \
	} name SEC(".maps")

TABLE_OF_ONE_PROGRAM(cuda_failed);
TABLE_OF_ONE_PROGRAM(cuda_fail_exit);

static __always_inline bool has_failed(void)
{
	struct thread *thread;
	bool has;

	guard_begin();
	thread = bpf_task_storage_get(&cuda_threads, bpf_get_current_task_btf(), NULL, 0);
	has = thread && thread->follows == CUDA_FAILED;
	if (has)
		thread->follows = 0;
	guard_end();
	return has;
}

static __always_inline void continue_failed(struct pt_regs *regs, void *programs)
{
	if (follow_failed && has_failed())
		bpf_tail_call(regs, programs, 0);
}

/* The thread's call has begun: its duration begins again after this. Returns as cuda_enter(). */
static __always_inline long read_python(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);
	struct call *call;
	__u64 began_ns, took_ns;
	long again;

	if (!thread)
		return 0;
	call = &thread->open.call[0];
	began_ns = call->started_ns;
	again = find_python_of(thread, task) ? CUDA_PYTHON : 0;
	call_start(call);
	took_ns = call->started_ns - began_ns;
	add_cuda_cost(thread, took_ns < PYTHON_LONGEST_NS ? took_ns : PYTHON_LONGEST_NS);
	return again | !!(call->function & CUDA_EXITS);
}

SEC("uprobe")
int cuda_python(struct pt_regs *regs)
{
	long skip;

	guard_begin();
	skip = read_python();
	guard_end();
	return continue_entry(regs, skip) != 0;
}

#endif
