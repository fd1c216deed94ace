// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* How followed processes end, and which signals they get, with the senders. Their starts are
 * records of the table of followed processes. */
#define PROBE life

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/host_life.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"
#include "bpf/lib/guard.bpf.h"

/* A record of each signal, for a trace. */
const volatile bool tracing = false;

RING_MAP(life_events, 256 << 10);

ON_DEMAND_MAP(life_signals, 16384, struct life_key, __u64);

/* Who sent the signals that end processes, until they have ended. Only signals that do end one are
 * here, so that there are few. */
struct life_deadly {
	__u32 tgid;
	__u32 signal;
};

struct life_killer {
	__u64 start_boottime_ns;
	struct life_origin origin;
};

LRU_MAP(life_killers, 1024, struct life_deadly, struct life_killer);

static const __u64 no_signals;
static const struct life_killer no_killer;

/* The kernel's own numbers (include/linux/sched/signal.h, include/trace/events/signal.h). */
#define SIGNAL_GROUP_EXIT    4
#define TRACE_SIGNAL_IGNORED 1
#define SEND_SIG_NOINFO	     0UL
#define SEND_SIG_PRIV	     1UL
#define SI_USER		     0
#define SI_QUEUE	     -1
#define SI_TKILL	     -6
#define SIGNAL_BIT(number)   (1ULL << (number))
#define STOPPING	     (SIGNAL_BIT(19) | SIGNAL_BIT(20) | SIGNAL_BIT(21) | SIGNAL_BIT(22))
#define HARMLESS	     (SIGNAL_BIT(17) | SIGNAL_BIT(18) | SIGNAL_BIT(23) | SIGNAL_BIT(28))

static __always_inline __u32 sender_of(struct kernel_siginfo *info, struct task_struct *task)
{
	int code;

	if ((unsigned long)info == SEND_SIG_PRIV)
		return LIFE_KERNEL;
	if ((unsigned long)info != SEND_SIG_NOINFO) {
		code = BPF_CORE_READ(info, si_code);
		if (code != SI_USER && code != SI_TKILL && code != SI_QUEUE)
			return LIFE_KERNEL;
	}
	return bpf_get_current_task_btf()->tgid == task->tgid ? LIFE_SELF : LIFE_PROCESS;
}

static __always_inline void fill_origin(struct life_origin *origin, __u32 sender)
{
	struct task_struct *current = bpf_get_current_task_btf();

	origin->sender = sender;
	origin->tgid = 0;
	if (sender == LIFE_PROCESS) {
		origin->tgid = current->tgid;
		bpf_probe_read_kernel(origin->comm, sizeof(origin->comm),
				      current->group_leader->comm);
	} else {
		__builtin_memset(origin->comm, 0, sizeof(origin->comm));
	}
}

static __always_inline void count_signal(const struct followed *process, struct task_struct *task,
					 int signal, __u32 sender)
{
	struct life_key key = {.since_ns = process->since_ns,
			       .tgid = task->tgid,
			       .signal = signal,
			       .sender = sender,
			       .role = role_of(process)};
	__u64 *count = bpf_map_lookup_elem(&life_signals, &key);

	ACCOUNT(entered, 1);
	if (!count) {
		bpf_map_update_elem(&life_signals, &key, &no_signals, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&life_signals, &key);
	}
	if (!count) {
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	__sync_fetch_and_add(count, 1);
	ACCOUNT(events, 1);
}

static __always_inline void send_signal(const struct followed *process, struct task_struct *task,
					int signal, __u32 sender)
{
	struct life_signal_record *record;

	ACCOUNT(entered, 1);
	record = bpf_ringbuf_reserve(&life_events, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	record->head.at_ns = bpf_ktime_get_ns();
	record->head.since_ns = process->since_ns;
	record->head.tgid = task->tgid;
	record->head.type = LIFE_SIGNAL;
	record->reasons = process->reasons;
	record->signal = signal;
	fill_origin(&record->origin, sender);
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* Will the signal end the process, as it has no handler? */
static __always_inline bool is_deadly(struct task_struct *task, int signal, int result)
{
	/* Read as a number, to which the verifier of Linux 6.1 lets an index be added. */
	void *action = (void *)BPF_CORE_READ(task, sighand) +
		       bpf_core_field_offset(struct sighand_struct, action);
	struct k_sigaction *of_signal;
	void *handler = NULL;

	if (result == TRACE_SIGNAL_IGNORED || (STOPPING | HARMLESS) >> (signal & 63) & 1)
		return false;
	of_signal = action + (signal - 1) * bpf_core_type_size(struct k_sigaction);
	bpf_core_read(&handler, sizeof(handler), &of_signal->sa.sa_handler);
	return !handler;
}

static __always_inline void note_killer(struct task_struct *task, int signal, __u32 sender)
{
	struct life_deadly key = {.tgid = task->tgid, .signal = signal};
	struct life_killer *killer;

	bpf_map_update_elem(&life_killers, &key, &no_killer, BPF_ANY);
	killer = bpf_map_lookup_elem(&life_killers, &key);
	if (!killer)
		return;
	fill_origin(&killer->origin, sender);
	killer->start_boottime_ns = task->group_leader->start_boottime;
}

static __always_inline void on_signal(struct task_struct *task, int signal,
				      struct kernel_siginfo *info, int result)
{
	struct followed *process = followed_process(task);
	__u32 sender;

	if (!process || process->ended_ns || signal < 1 || signal >= LIFE_SIGNALS)
		return;
	sender = sender_of(info, task);
	if (tracing)
		send_signal(process, task, signal, sender);
	else
		count_signal(process, task, signal, sender);
	if (is_deadly(task, signal, result))
		note_killer(task, signal, sender);
}

SEC("tp_btf/signal_generate")
int BPF_PROG(life_signal, int signal, struct kernel_siginfo *info, struct task_struct *task,
	     int group, int result)
{
	tracepoint_guard_begin();
	on_signal(task, signal, info, result);
	tracepoint_guard_end();
	return 0;
}

static __always_inline __u32 wait_status_of(struct task_struct *task)
{
	struct signal_struct *signal = task->signal;

	return signal->flags & SIGNAL_GROUP_EXIT ? signal->group_exit_code
						 : task->group_leader->exit_code;
}

static __always_inline void fill_killer(struct life_exit_record *record, struct task_struct *task)
{
	struct life_deadly key = {.tgid = task->tgid, .signal = record->wait_status & 0x7f};
	struct life_killer *killer;

	record->has_origin = 0;
	__builtin_memset(&record->origin, 0, sizeof(record->origin));
	if (!key.signal)
		return;
	killer = bpf_map_lookup_elem(&life_killers, &key);
	if (killer && killer->start_boottime_ns == task->group_leader->start_boottime) {
		record->has_origin = 1;
		record->origin = killer->origin;
	}
	bpf_map_delete_elem(&life_killers, &key);
}

static __always_inline void send_exit(struct followed *process, struct task_struct *task)
{
	struct life_exit_record *record;

	ACCOUNT(entered, 1);
	record = bpf_ringbuf_reserve(&life_events, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	record->head.at_ns = process->ended_ns;
	record->head.since_ns = process->since_ns;
	record->head.tgid = task->tgid;
	record->head.type = LIFE_EXIT;
	record->reasons = process->reasons;
	record->wait_status = wait_status_of(task);
	record->lifetime_ns = bpf_ktime_get_boot_ns() - process->start_boottime_ns;
	record->out_of_memory = task->signal->oom_mm != NULL;
	fill_killer(record, task);
	record->cuda_since_ns = *(volatile __u64 *)&process->cuda_since_ns;
	record->last_call = *(volatile __u64 *)&process->last_call;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* Where this record lies before that of the process's end, that one has the call, too. */
static __always_inline void send_last_call(struct followed *process, struct task_struct *task)
{
	struct life_last_call_record *record;

	ACCOUNT(entered, 1);
	record = bpf_ringbuf_reserve(&life_events, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return;
	}
	record->head.at_ns = bpf_ktime_get_ns();
	record->head.since_ns = process->since_ns;
	record->head.tgid = task->tgid;
	record->head.type = LIFE_LAST_CALL;
	record->cuda_since_ns = process->cuda_since_ns;
	record->last_call = *(volatile __u64 *)&process->last_call;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* Several threads can end at once, and the one that ends the process can be faster than others. */
static __always_inline void on_exit(struct task_struct *task)
{
	struct followed *process = followed_process(task);

	if (!process || !process->ended_ns)
		return;
	if (ends_process(process, task))
		send_exit(process, task);
	else if (process->cuda_since_ns)
		send_last_call(process, task);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(life_exit, struct task_struct *task)
{
	tracepoint_guard_begin();
	on_exit(task);
	tracepoint_guard_end();
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
