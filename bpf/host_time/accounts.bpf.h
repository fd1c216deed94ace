/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The accounts of launching threads. The programs of `cuda` make them and end them, as a submission
 * makes a thread a launching one; the hook of host_time.bpf.c counts in them. */
#ifndef GPUSNOOP_HOST_TIME_ACCOUNTS_BPF_H
#define GPUSNOOP_HOST_TIME_ACCOUNTS_BPF_H

#include "bpf/host_time/host_time.h"
#include "bpf/lib/bucket.bpf.h"
#include "bpf/lib/maps.bpf.h"

/* Of the thread's present gap, which begins at the end of each submission and of each wait. */
struct launch_gap {
	__u64 number; /* from 1 on */
	__u64 since_ns;
	__u64 calls_ns; /* in CUDA calls that submit nothing */
	__u64 drain;	/* enum host_drain */
	__u64 function; /* the number of what it began with */
	__u64 published_ns;
};

/* Times off the CPU in one gap, outside of CUDA calls. */
struct gap_states {
	__u64 number; /* of the gap */
	__u64 ns[HOST_STATE_COUNT];
	struct host_block longest;
};

/* The gap of an interval that is in none, or that is counted in it already. */
#define NO_GAP 0

/* A thread as of when it last left its CPU. */
struct departure {
	__u64 at_ns; /* by the clock of the run queue; 0: it has not yet */
	__u64 run_delay_ns;
	__u64 ran_ns;
	__u64 arrivals;
	__u64 throttled_ns; /* of its groups, where the thread does not know whether it is */
	__u16 state;	    /* enum host_state: why it left */
	__u16 call;	    /* as in struct host_block */
	__u32 filesystem;   /* of `file`, as in struct host_file_key */
};

/* The parts of a time off the CPU. */
struct time_off {
	__u64 blocked_ns;
	__u64 throttled_ns;
	__u64 ready_ns;
};

/* The gap that has just ended. */
struct ended_gap {
	__u64 number;
	__u64 own_ns; /* since the thread's last submission or wait, */
	__u64 ns;     /* and since that of its process */
	__u64 calls_ns;
	__u64 drain;
	/* The last time off the CPU. */
	struct host_block last;
	struct time_off off;
	__u64 left_ns; /* not explained yet */
	struct host_gap_record record;
};

struct host_account {
	/* Odd while it changes, and after the thread's end: a reader must try again. */
	__u64 sequence;
	struct host_process process;
	__u64 since_ns; /* CLOCK_MONOTONIC */
	struct departure left;
	__u64 phase;  /* enum host_phase, when it left its CPU, */
	__u64 in_gap; /* and the number of the gap that this was in, or NO_GAP, */
	__s64 stack;  /* and its functions, as in struct host_block */
	struct launch_gap gap;
	/* Of the present gap, and of the one before. */
	struct gap_states gap_states[2];
	struct ended_gap ended; /* scratch, of the programs of `cuda` */
	/* Scratch: too much for a program's stack. */
	__u64 now_ns;
	struct time_off off;
	struct host_block block;
	struct host_file_key file;
	struct host_device_key device; /* its device is the account's */
	struct host_times times;
	struct host_device_times of_device;
};

THREAD_MAP(cuda_times, struct host_account);

/* Records of explained gaps. */
RING_MAP(cuda_gaps, 256 << 10);

/* Waits for files, by process and file system. Not allocated when they come: then a lock of the
 * scheduler is held. */
HASH_MAP(cuda_file_waits, 2048, struct host_file_key, struct host_file_waits);

/* Of ended threads, and of those that have gone to another device. The entries of process 0 are of
 * those whose process found no room. */
ON_DEMAND_MAP(cuda_dev_times, 4096, struct host_device_key, struct host_device_times);

static const struct host_times no_times;
static const struct host_device_times no_device_times;
static const struct host_file_waits no_file_waits;

/* Of ended threads, by process. The entry of process 0 is of the threads whose process found no
 * room. */
ON_DEMAND_MAP(cuda_times_past, 4096, struct host_process, struct host_times);

/* A writer's changes lie between these two. Only the thread itself writes, or the hook as the
 * thread leaves its CPU, so the changes need not be atomic. The additions have results, which makes
 * them barriers. */
#define change_sequence(account)                                                                   \
	({                                                                                         \
		__u64 was_ = __sync_fetch_and_add(&(account)->sequence, 1);                        \
		barrier_var(was_);                                                                 \
	})

static __always_inline struct host_device_times *past_of_device(const struct host_device_key *key)
{
	struct host_device_times *past = bpf_map_lookup_elem(&cuda_dev_times, key);

	if (past)
		return past;
	bpf_map_update_elem(&cuda_dev_times, key, &no_device_times, BPF_NOEXIST);
	return bpf_map_lookup_elem(&cuda_dev_times, key);
}

/* Gives away what the account has of its device. The hook may add something meanwhile. */
static __always_inline void hand_over_device(struct host_account *account)
{
	__u64 *from = (__u64 *)&account->of_device;
	struct host_device_times *past;
	__u64 *to;

	account->device.since_ns = account->process.since_ns;
	account->device.tgid = account->process.tgid;
	past = past_of_device(&account->device);
	if (!past) {
		account->device.since_ns = account->device.tgid = 0;
		past = past_of_device(&account->device);
	}
	if (!past)
		return;
	to = (__u64 *)past;
	for (__u32 i = 0; i < HOST_DEVICE_WORDS; i++)
		if (from[i])
			__sync_fetch_and_add(&to[i], __sync_lock_test_and_set(&from[i], 0));
}

BUCKET_FUNCTION(span_bucket, HOST_SPAN_BUCKETS, HOST_SPAN_BOUNDS)

BUCKET_FUNCTION(latency_bucket, HOST_LATENCY_BUCKETS, HOST_LATENCY_BOUNDS)

/* From 6.18 on, the kernel notes it of each thread. */
static __always_inline bool knows_throttling(void)
{
	return bpf_core_field_exists(((struct task_struct___throttled *)0)->throttled);
}

static __always_inline bool is_throttled(struct task_struct *task)
{
	struct cfs_rq___throttle_count *queue = (void *)task->se.cfs_rq;

	if (knows_throttling())
		return ((struct task_struct___throttled *)task)->throttled;
	return bpf_core_field_exists(queue->throttle_count) && queue->throttle_count > 0;
}

#define THROTTLED_LEVELS 6

/* How long the thread's groups have been throttled, added up. Only where it says nothing itself. */
static __always_inline __u64 throttled_ns(struct task_struct *task)
{
	struct task_group *group = task->sched_task_group;
	__u64 sum = 0;

	if (knows_throttling() || !bpf_core_field_exists(group->cfs_bandwidth))
		return 0;
	for (int i = 0; i < THROTTLED_LEVELS && group; i++) {
		sum += group->cfs_bandwidth.throttled_time;
		group = group->parent;
	}
	return sum;
}

/* Of the time that a thread was ready, the part that its groups were throttled. */
static __always_inline __u64 throttled_part(const struct departure *left, struct task_struct *task,
					    __u64 ready_ns)
{
	__u64 throttled;

	if (left->state == HOST_STATE_throttled)
		return ready_ns;
	throttled = throttled_ns(task) - left->throttled_ns;
	return throttled < ready_ns ? throttled : ready_ns;
}

static __always_inline void split_off(struct time_off *off, const struct departure *left,
				      struct task_struct *task, __u64 off_ns)
{
	__u64 ready_ns = task->sched_info.run_delay - left->run_delay_ns;

	if (ready_ns > off_ns)
		ready_ns = off_ns;
	off->throttled_ns = throttled_part(left, task, ready_ns);
	off->blocked_ns = off_ns - ready_ns;
	off->ready_ns = ready_ns - off->throttled_ns;
}

/* False: the table has no room for it. */
static __always_inline bool add_file_wait(struct host_file_key *key,
					  const struct host_process *process,
					  const struct departure *left, __u64 blocked_ns)
{
	struct host_file_waits *waits;

	if (left->state != HOST_STATE_file || !blocked_ns)
		return true;
	key->since_ns = process->since_ns;
	key->tgid = process->tgid;
	key->filesystem = left->filesystem;
	waits = bpf_map_lookup_elem(&cuda_file_waits, key);
	if (!waits) {
		bpf_map_update_elem(&cuda_file_waits, key, &no_file_waits, BPF_NOEXIST);
		waits = bpf_map_lookup_elem(&cuda_file_waits, key);
	}
	if (!waits)
		return false;
	__sync_fetch_and_add(&waits->ns, blocked_ns);
	__sync_fetch_and_add(&waits->waits[span_bucket(blocked_ns)], 1);
	return true;
}

static __always_inline struct gap_states *gap_states_of(struct host_account *account, __u64 number)
{
	struct gap_states *states = &account->gap_states[number & 1];

	if (states->number != number) {
		bpf_probe_read_kernel(states->ns, sizeof(states->ns), &no_times);
		states->longest.ns = 0;
		states->number = number;
	}
	return states;
}

/* The last time off the CPU. */
static __always_inline void fill_block(struct host_block *block, const struct host_account *account,
				       __u64 blocked_ns)
{
	block->ns = blocked_ns;
	block->state = account->left.state;
	block->call = account->left.call;
	block->filesystem = account->left.filesystem;
	block->stack = account->stack;
}

static __always_inline void note_longest(struct gap_states *states, const struct host_block *block)
{
	if (block->ns > states->longest.ns)
		states->longest = *block;
}

static __always_inline void add_to_gap(struct host_account *account, __u64 number, __u32 state)
{
	struct gap_states *states = gap_states_of(account, number);

	barrier_var(state);
	if (state >= HOST_STATE_COUNT)
		return;
	states->ns[state] += account->off.blocked_ns;
	states->ns[HOST_STATE_throttled] += account->off.throttled_ns;
	states->ns[HOST_STATE_runnable] += account->off.ready_ns;
	fill_block(&account->block, account, account->off.blocked_ns);
	note_longest(states, &account->block);
}

/* Adds the time that a thread was off the CPU. */
static __always_inline void add_off(struct host_account *account, struct task_struct *task,
				    __u64 off_ns)
{
	struct host_times *times = &account->times;
	struct time_off *off = &account->off;
	__u32 phase = account->phase;
	__u32 state = account->left.state;

	split_off(off, &account->left, task, off_ns);
	barrier_var(phase);
	barrier_var(state);
	if (phase >= HOST_PHASE_COUNT || state >= HOST_STATE_COUNT)
		return;
	times->off_ns[phase][state] += off->blocked_ns;
	times->off_ns[phase][HOST_STATE_throttled] += off->throttled_ns;
	times->off_ns[phase][HOST_STATE_runnable] += off->ready_ns;
	if (account->in_gap != NO_GAP)
		add_to_gap(account, account->in_gap, state);
	times->latency_ns += off->ready_ns;
	times->latencies[latency_bucket(off->ready_ns)] += 1;
	if (!add_file_wait(&account->file, &account->process, &account->left, off->blocked_ns))
		times->file_waits_lost += 1;
}

#endif
