// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Counts where the time of launching threads goes, and what other threads of followed processes
 * wait for. One hook is enough, where a thread leaves its CPU: the kernel has noted when it got the
 * CPU, how long it had waited for one, and which system call it is in. The hook runs with
 * interrupts off and a lock of the scheduler held: it allocates nothing and sends nothing. */
#define PROBE htime

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/cuda/threads.bpf.h"
#include "bpf/host_time/accounts.bpf.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"
#include "bpf/lib/open_calls.bpf.h"

#include "bpf/host_time/blocked.bpf.h"
#include "bpf/host_time/reading.bpf.h"
#include "bpf/host_time/waits.bpf.h"

/* The functions that led to the longest time that a thread was blocked in a gap, for a trace. */
const volatile bool gap_stacks = false;

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1); /* with gap_stacks, what user space sets */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, HOST_STACK_FRAMES * sizeof(__u64));
} htime_stacks SEC(".maps");

static __always_inline __u32 phase_now(const struct thread *thread)
{
	return thread->open.depth ? CUDA_COOKIE_PHASE(thread->open.call[0].function) : HOST_host;
}

static __always_inline void add_node(struct host_device_times *times, __u64 ran_ns)
{
	__u32 node = bpf_get_numa_node_id();

	if (node >= HOST_NODES)
		node = HOST_NODES - 1;
	barrier_var(node);
	if (node < HOST_NODES)
		times->node_ns[node] += ran_ns;
}

/* Ends the interval that began when the thread last left a CPU: it was off it, then on it. */
static __always_inline void settle(struct host_account *account, struct task_struct *task,
				   const struct thread *thread)
{
	__u64 ran_ns = task->se.sum_exec_runtime - account->left.ran_ns;
	__u64 on_ns = on_cpu_ns(&account->left, task, account->now_ns, ran_ns);
	__u32 phase = phase_now(thread);

	if (phase < HOST_PHASE_COUNT && on_ns > ran_ns)
		account->times.off_ns[phase][HOST_STATE_stolen] += on_ns - ran_ns;
	add_off(account, task, off_cpu_ns(&account->left, account->now_ns, on_ns));
	account->times.ran_ns += ran_ns;
	add_node(&account->of_device, ran_ns);
	account->times.settled += 1;
}

/* An account from before the hook: what happened since then is not known. */
static __always_inline void begin_again(struct host_account *account, struct thread *thread)
{
	bpf_probe_read_kernel(&account->times, sizeof(account->times), &no_times);
	bpf_probe_read_kernel(&account->of_device, sizeof(account->of_device), &no_device_times);
	__builtin_memset(&thread->in_calls, 0, sizeof(thread->in_calls));
	account->since_ns = thread->in_calls.since_ns = bpf_ktime_get_ns();
	account->left.at_ns = 0;
	account->in_gap = account->gap.number = NO_GAP;
	account->gap_states[0].number = account->gap_states[1].number = NO_GAP;
}

/* False: it is no launching thread. */
static __always_inline bool launching_thread_leaves(void *ctx, struct task_struct *task,
						    bool is_ready)
{
	struct host_account *account = bpf_task_storage_get(&cuda_times, task, NULL, 0);
	struct thread *thread;

	if (!account)
		return false;
	thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);
	if (!thread)
		return false;
	change_sequence(account);
	account->now_ns = task->se.cfs_rq->rq->clock;
	if (account->since_ns < attached_ns)
		begin_again(account, thread);
	if (account->left.at_ns)
		settle(account, task, thread);
	else
		last_wait_ends(task);
	note_departure(&account->left, task, account->now_ns, is_ready);
	account->phase = phase_now(thread);
	account->in_gap = account->phase == HOST_host ? account->gap.number : NO_GAP;
	if (gap_stacks)
		account->stack = is_ready || account->in_gap == NO_GAP
				     ? -1
				     : bpf_get_stackid(ctx, &htime_stacks, BPF_F_USER_STACK);
	account->times.opened += 1;
	change_sequence(account);
	return true;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(htime_switch, bool preempt, struct task_struct *task, struct task_struct *next)
{
	bool is_ready;

	if (!task->bpf_storage)
		return 0;
	is_ready = preempt || !task->__state;
	if (!launching_thread_leaves(ctx, task, is_ready))
		thread_leaves(task, is_ready);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
