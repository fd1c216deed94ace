// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What a probe costs on this machine: probes on functions of the exporter itself, which do as much
 * as those of the probes on libraries do for a call. */
#define PROBE calib

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/calibration.h"
#include "bpf/lib/emit.bpf.h"

#define CALL_DEPTH 1
#define CALL_SLOTS 8
#include "bpf/lib/call.bpf.h"
#include "bpf/lib/maps.bpf.h"

/* enum calibrated_work; the exporter changes it while nothing calls its functions. */
__u32 work;

struct thread {
	struct call_stack open;
	__u64 word;
	__u32 tgid;
	__s32 stack;
};

THREAD_MAP(calib_threads, struct thread);

/* Nobody reads it: the records are discarded, and none has room when it is full. */
RING_MAP(calib_events, 1 << 19);

STACK_MAP(calib_stacks, 64, CALIBRATION_STACK_FRAMES);

/* Stands for the tables of processes and of launching threads, in which a record looks twice. */
HASH_MAP(calib_procs, 64, __u32, __u64);

static __always_inline long calibration_enter(struct pt_regs *regs, struct task_struct *task,
					      __u64 cookie)
{
	struct thread *thread;
	struct call *call;

	thread = bpf_task_storage_get(&calib_threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 1;
	thread->word = call_caller(regs); /* as call_drop_dead() does, or call_read_seventh() */
	if (work == CALIBRATED_NESTED) {
		ACCOUNT(nested, 1);
		return cookie & CALIBRATION_ENTRY_ONLY;
	}
	ACCOUNT(entered, 1);
	thread->open.depth = 0; /* of a call whose end is not seen */
	call = call_begin(&thread->open, regs, cookie & ~CALL_STEPPED);
	if (!call)
		return 1;
	if (work == CALIBRATED_STACK)
		thread->stack = bpf_get_stackid(regs, &calib_stacks, BPF_F_USER_STACK);
	call_start(call);
	return call->function & CALIBRATION_ENTRY_ONLY;
}

static __always_inline void calibration_leave(struct pt_regs *regs, struct task_struct *task,
					      __u64 function)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct calibration_record *record;
	struct thread *thread;
	struct call *call;
	__u64 dead = 0;

	thread = bpf_task_storage_get(&calib_threads, task, NULL, 0);
	if (work == CALIBRATED_NESTED)
		return;
	call = thread ? call_end(&thread->open, regs, function, &dead) : NULL;
	if (!call)
		return;
	record = bpf_ringbuf_reserve(&calib_events, sizeof(*record), 0);
	if (!record)
		return;
	thread->tgid = bpf_get_current_pid_tgid() >> 32;
	bpf_map_update_elem(&calib_procs, &thread->tgid, &thread->word, BPF_NOEXIST);
	if (bpf_map_lookup_elem(&calib_procs, &thread->tgid))
		ACCOUNT(events, 1);
	record->duration_ns = now_ns - call->started_ns;
	for (int i = 0; i < CALIBRATION_ARGUMENTS; i++)
		record->argument[i] = call->argument[i + 1];
	DISCARD(record);
}

CALL_PROGRAMS(calibration_enter, calibration_leave)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
