// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Calls of the NVIDIA driver's nvlink_strcpy, nvlink_memcpy and nvlink_memset: one record per call,
 * sent when it returns. */
#define PROBE nvlink

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/kcall.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/process_details.bpf.h"
#include "bpf/nvlink.h"

struct thread {
	struct kcall_stack open;
	struct described described;
	char string[NVLINK_STRING_BYTES]; /* scratch */
};

RING_MAP(nvlink_events, 1 << 20);

THREAD_MAP(nvlink_threads, struct thread);

/* The source is read at the return: the copied bytes are there then. */
static __always_inline __u64 bytes_of(struct thread *thread, const struct kcall *call)
{
	long length;

	if (call->function != NVLINK_STRCPY)
		return call->argument[2];
	length = bpf_probe_read_kernel_str(thread->string, sizeof(thread->string),
					   (const void *)call->argument[1]);
	return length > 0 ? length : 0;
}

static __always_inline void fill(struct nvlink_record *record, struct thread *thread,
				 const struct kcall *call, __u64 now_ns, bool in_thread)
{
	struct task_struct *task = bpf_get_current_task_btf();

	record->ended_ns = now_ns;
	record->duration_ns = now_ns - call->started_ns;
	record->bytes = bytes_of(thread, call);
	record->op = call->function;
	record->flags = in_thread ? 0 : NVLINK_IN_INTERRUPT;
	record->tgid = in_thread ? task->tgid : 0;
	record->tid = in_thread ? task->pid : 0;
	if (in_thread)
		/* Asked for again, as a kept one would take stack. */
		fill_identity(&record->identity, bpf_get_current_task_btf());
	else
		__builtin_memset(&record->identity, 0, sizeof(record->identity));
}

static __always_inline bool send_first(struct thread *thread, const struct kcall *call,
				       __u64 now_ns)
{
	struct nvlink_first_record *record;

	record = bpf_ringbuf_reserve(&nvlink_events, sizeof(*record), 0);
	if (!record)
		return false;
	fill(&record->call, thread, call, now_ns, true);
	FILL_PART(record, details, fill_details);
	set_described(&thread->described);
	SUBMIT(record);
	return true;
}

static __always_inline bool send_next(struct thread *thread, const struct kcall *call, __u64 now_ns,
				      bool in_thread)
{
	struct nvlink_record *record = bpf_ringbuf_reserve(&nvlink_events, sizeof(*record), 0);

	if (!record)
		return false;
	fill(record, thread, call, now_ns, in_thread);
	SUBMIT(record);
	return true;
}

static __always_inline void enter(struct pt_regs *regs)
{
	struct thread *thread;
	struct kcall *call;

	ACCOUNT(entered, 1);
	thread = bpf_task_storage_get(&nvlink_threads, bpf_get_current_task_btf(), NULL,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
	call = thread ? kcall_begin(&thread->open, regs) : NULL;
	if (!call) {
		ACCOUNT(lost[LOST_no_state], 1);
		return;
	}
	call->started_ns = bpf_ktime_get_ns();
}

static __always_inline void leave(struct pt_regs *regs)
{
	__u64 now_ns = bpf_ktime_get_ns();
	bool in_thread;
	struct thread *thread;
	struct kcall *call;
	bool is_sent;

	thread = bpf_task_storage_get(&nvlink_threads, bpf_get_current_task_btf(), NULL, 0);
	call = thread ? kcall_end(&thread->open, bpf_get_attach_cookie(regs)) : NULL;
	if (!call) {
		ACCOUNT(unmatched, 1);
		return;
	}
	in_thread = kcall_in_thread(call);
	is_sent = in_thread && !is_described(&thread->described)
		      ? send_first(thread, call, now_ns)
		      : send_next(thread, call, now_ns, in_thread);
	if (is_sent)
		ACCOUNT(events, 1);
	else
		ACCOUNT(lost[LOST_ring_full], 1);
}

KCALL_PROGRAMS(enter, leave)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
