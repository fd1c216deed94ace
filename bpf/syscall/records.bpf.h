/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The records of single calls, which only a trace gets. */
#ifndef GPUSNOOP_SYSCALL_RECORDS_BPF_H
#define GPUSNOOP_SYSCALL_RECORDS_BPF_H

#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/traced.bpf.h"
#include "bpf/syscall/syscall.h"

/* No call of a target is in between. */
#define IDLE	0
#define OPEN	1
#define IGNORED 2 /* one that is not wanted */
#define EXECED	3 /* execve() has succeeded: the call that returns now is another program's */

/* One entry for each thread of a target that is in a system call. */
struct thread {
	struct traced_thread traced;
	__u64 started_ns;
	__u32 state;
	struct syscall_key key;
	struct syscall_error_key error;
};

THREAD_MAP(syscall_threads, struct thread);

/* The process of `gpusnoop_exporter trace`, which gets a record for each call but its own. 0 in the
 * exporter: the verifier removes all of this as dead code. */
const volatile int tracer_tgid = 0;
/* Whether all calls that are wanted open files, and its records have their paths. The path is the
 * first argument of these two calls, and the second of all others. */
const volatile bool with_paths = false;
const volatile __u32 path_first[2] = {SYSCALL_COUNT, SYSCALL_COUNT};

/* Until a call returns, the kernel keeps its registers, except the one of the result. A kprobe has
 * only the address of them. */
static __always_inline void fill_arguments(struct syscall_record *record, struct task_struct *task,
					   struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	bool is_32_bit = task->thread_info.status & 2; /* TS_COMPAT */

	record->made_with = BPF_CORE_READ(regs, orig_ax);
	record->arguments[0] = is_32_bit ? BPF_CORE_READ(regs, bx) : BPF_CORE_READ(regs, di);
	record->arguments[1] = is_32_bit ? BPF_CORE_READ(regs, cx) : BPF_CORE_READ(regs, si);
	record->arguments[2] = BPF_CORE_READ(regs, dx);
	record->arguments[3] = is_32_bit ? BPF_CORE_READ(regs, si) : BPF_CORE_READ(regs, r10);
	record->arguments[4] = is_32_bit ? BPF_CORE_READ(regs, di) : BPF_CORE_READ(regs, r8);
	record->arguments[5] = is_32_bit ? BPF_CORE_READ(regs, bp) : BPF_CORE_READ(regs, r9);
#else
	struct pt_regs___syscall *call = (void *)regs;

	record->made_with = BPF_CORE_READ(call, syscallno);
	record->arguments[0] = BPF_CORE_READ(call, orig_x0);
	record->arguments[1] = BPF_CORE_READ(regs, user_regs.regs[1]);
	record->arguments[2] = BPF_CORE_READ(regs, user_regs.regs[2]);
	record->arguments[3] = BPF_CORE_READ(regs, user_regs.regs[3]);
	record->arguments[4] = BPF_CORE_READ(regs, user_regs.regs[4]);
	record->arguments[5] = BPF_CORE_READ(regs, user_regs.regs[5]);
#endif
}

static __always_inline void fill_call(struct syscall_record *record, struct thread *thread,
				      struct task_struct *task, struct pt_regs *regs, long result)
{
	fill_traced(&record->head, thread->traced.since_ns, thread->traced.tgid, SYSCALL_RECORD);
	record->nanoseconds = record->head.at_ns - thread->started_ns;
	record->result = result;
	record->tid = thread->traced.tid;
	record->number = thread->key.number;
	record->reserved = 0;
	fill_arguments(record, task, regs);
}

static __always_inline void send_call(struct thread *thread, struct task_struct *task,
				      struct pt_regs *regs, long result)
{
	struct syscall_record *record = bpf_ringbuf_reserve(&syscall_events, sizeof(*record), 0);

	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(record, thread, task, regs, result);
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* The kernel has just read the path, so its memory is there, unless the address was wrong. */
static __always_inline void send_open(struct thread *thread, struct task_struct *task,
				      struct pt_regs *regs, long result)
{
	struct syscall_open_record *record =
	    bpf_ringbuf_reserve(&syscall_events, sizeof(*record), 0);
	__u32 number = thread->key.number;
	__u64 path;

	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	fill_call(&record->call, thread, task, regs, result);
	path = number == path_first[0] || number == path_first[1] ? record->call.arguments[0]
								  : record->call.arguments[1];
	if (bpf_probe_read_user_str(record->path, sizeof(record->path), (void *)path) < 0)
		record->path[0] = 0;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

#endif
