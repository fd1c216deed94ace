// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Counts the stacks of followed processes, while somebody asks for a profile. The programs of one
 * type are loaded: at the ticks of each CPU's clock, at switches between threads, at page faults,
 * or at the functions of a process's allocator.
 *
 * At a switch, a lock of the scheduler is held, so all tables are allocated from the beginning. */
#define PROBE prof

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/cuda/threads.bpf.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"
#include "bpf/lib/python/layout.h"
#include "bpf/profile/profile.h"

/* By a hash of all addresses. The kernel's own kind of table for stacks would lose one of two that
 * share a place in it, which with a hundred stacks is one profile in three. */
HASH_MAP(prof_stacks, 16384, __u64, struct profile_stack);

HASH_MAP(prof_counts, 32768, struct profile_key, struct profile_count);

/* By thread. */
HASH_MAP(prof_off, 32768, __u32, struct profile_off);

/* Where a profile does not end: what was counted in an earlier generation can be taken out of the
 * tables while this one fills. */
volatile __u32 generation = 0;

/* Too much for a program's stack. None of the programs can interrupt itself. */
struct scratch {
	struct profile_off off;
	struct profile_stack stack;
	__u64 hash;
	__u32 generation;
	struct python_process process;
	struct python_walk python;
};

PERCPU_MAP(prof_scratch, 1, struct scratch);

static const struct profile_count nothing;

/* Samples whose stack found no room. */
__u64 stacks_lost = 0;

/* For prof_name. */
struct profile_symbol symbol = {};

#define TASK_DEAD 0x80 /* it leaves its CPU for the last time: include/linux/sched.h */

/* Also the calls of a thread that began before the profile. */
static __always_inline __u16 cuda_function(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);

	return thread && thread->open.depth
		   ? CUDA_COOKIE_FUNCTION(thread->open.call[0].function) + 1
		   : 0;
}

/* Of the scratch's stack. 0: it is empty, or there is no room for it. */
static __always_inline __u64 stored(struct scratch *scratch, long bytes)
{
	__u64 *address = scratch->stack.address;

	if (bytes <= 0)
		return 0;
	scratch->hash = 0xcbf29ce484222325; /* FNV-1a, with a word instead of a byte */
	for (int i = 0; i < PROFILE_STACK_FRAMES; i++) {
		if (i * 8 >= bytes)
			address[i] = 0; /* of a longer stack before */
		scratch->hash = (scratch->hash ^ address[i]) * 0x100000001b3;
		scratch->hash ^= scratch->hash >> 29;
	}
	scratch->hash = PROFILE_STACK_ID(scratch->hash) | (scratch->generation & 0xff);
	if (!bpf_map_lookup_elem(&prof_stacks, &scratch->hash) &&
	    bpf_map_update_elem(&prof_stacks, &scratch->hash, &scratch->stack, BPF_ANY)) {
		__sync_fetch_and_add(&stacks_lost, 1);
		return 0;
	}
	return scratch->hash;
}

/* 0, too, if the thread has none, as one of the kernel's own. */
static __always_inline __u64 stack_of(struct scratch *scratch, void *context, __u64 flags)
{
	return stored(
	    scratch, bpf_get_stack(context, scratch->stack.address, sizeof(scratch->stack), flags));
}

#include "bpf/profile/python.bpf.h"

/* The current thread's; false: its process is not followed. */
static __always_inline bool fill_key(struct scratch *scratch, struct task_struct *task,
				     void *context, bool has_kernel_stack)
{
	struct followed *process = followed_process(task);
	struct profile_key *key = &scratch->off.key;

	if (!process)
		return false;
	scratch->generation = generation;
	key->since_ns = process->since_ns;
	key->tgid = task->tgid;
	key->tid = task->pid;
	key->user = stack_of(scratch, context, BPF_F_USER_STACK);
	key->kernel = has_kernel_stack ? stack_of(scratch, context, 0) : 0;
	key->function = cuda_function(task);
	key->is_ready = 0;
	key->generation = scratch->generation;
	bpf_probe_read_kernel(key->comm, sizeof(key->comm), task->comm);
	key->python = python_stack_of(scratch);
	return true;
}

static __always_inline void count(const struct profile_key *key, __u64 amount)
{
	struct profile_count *counts = bpf_map_lookup_elem(&prof_counts, key);

	if (!counts) {
		bpf_map_update_elem(&prof_counts, key, &nothing, BPF_NOEXIST);
		counts = bpf_map_lookup_elem(&prof_counts, key);
	}
	if (!counts) {
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	__sync_fetch_and_add(&counts->samples, 1);
	__sync_fetch_and_add(&counts->amount, amount);
	ACCOUNT(events, 1);
}

static __always_inline struct scratch *scratch_of_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&prof_scratch, &zero);
}

static __always_inline int sample(void *context)
{
	struct scratch *scratch = scratch_of_cpu();

	if (scratch && fill_key(scratch, bpf_get_current_task_btf(), context, true)) {
		ACCOUNT(entered, 1);
		count(&scratch->off.key, 0);
	}
	return 0;
}

SEC("perf_event")
int prof_tick(void *context)
{
	return sample(context);
}

SEC("perf_event")
int prof_fault(void *context)
{
	return sample(context);
}

static __always_inline void leaves(void *context, struct task_struct *task, bool is_ready,
				   __u64 now)
{
	struct scratch *scratch = scratch_of_cpu();
	__u32 tid = task->pid;

	if (!scratch || task->__state & TASK_DEAD || !fill_key(scratch, task, context, true))
		return;
	scratch->off.key.is_ready = is_ready;
	scratch->off.since_ns = now;
	ACCOUNT(entered, 1);
	if (bpf_map_update_elem(&prof_off, &tid, &scratch->off, BPF_ANY))
		ACCOUNT(lost[LOST_table_full], 1);
}

static __always_inline void returns(struct task_struct *task, __u64 now)
{
	struct profile_off *off;
	__u32 tid = task->pid;

	if (!followed_process(task))
		return;
	off = bpf_map_lookup_elem(&prof_off, &tid);
	if (!off)
		return;
	count(&off->key, now - off->since_ns);
	bpf_map_delete_elem(&prof_off, &tid);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(prof_switch, bool preempt, struct task_struct *task, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();

	returns(next, now);
	leaves(ctx, task, preempt || !task->__state, now);
	return 0;
}

#include "bpf/profile/heap.bpf.h"

static const char symbol_format[] = "%ps";

/* For the exporter, which runs this by bpf_prog_test_run: the kernel names its own functions, so
 * that nobody needs the privilege to read its addresses. */
SEC("syscall")
int prof_name(void *context)
{
	bpf_snprintf(symbol.name, sizeof(symbol.name), symbol_format, &symbol.address,
		     sizeof(symbol.address));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
