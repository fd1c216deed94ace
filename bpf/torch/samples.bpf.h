/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sampling of blocks (bpf/torch/torch.h): what all calls add up to, and which blocks are sampled.
 */
#ifndef GPUSNOOP_TORCH_SAMPLES_BPF_H
#define GPUSNOOP_TORCH_SAMPLES_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct torch_sampling);
} torch_samplings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct torch_totals_key);
	__type(value, struct torch_totals);
} torch_totals SEC(".maps");

/* The live sampled blocks. Without it, each free would need a record. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, struct torch_block_key);
	__type(value, __u64);
} torch_blocks SEC(".maps");

#define TORCH_PYTHON 2 /* in what torch_enter() returns, besides 1 */

static __always_inline long continue_entry(struct pt_regs *regs, long skip)
{
	if (python_stacks && skip & TORCH_PYTHON)
		bpf_tail_call(regs, &torch_tails, 0);
	return skip & ~TORCH_PYTHON;
}

/* NULL: there is no room. */
static __always_inline struct torch_sampling *sampling_of(struct thread *thread)
{
	struct torch_sampling *known = bpf_map_lookup_elem(&torch_samplings, &thread->traced.tgid);

	if (known && known->since_ns == thread->traced.since_ns)
		return known;
	thread->sampling.since_ns = thread->traced.since_ns;
	thread->sampling.rate = TORCH_FIRST_RATE;
	bpf_map_update_elem(&torch_samplings, &thread->traced.tgid, &thread->sampling,
			    known ? BPF_EXIST : BPF_NOEXIST);
	return bpf_map_lookup_elem(&torch_samplings, &thread->traced.tgid);
}

static __always_inline struct torch_totals *totals_of(struct thread *thread)
{
	struct torch_totals *known;

	thread->device.since_ns = thread->traced.since_ns;
	thread->device.tgid = thread->traced.tgid;
	thread->device.device_type = thread->record.device_type;
	thread->device.device = thread->record.device;
	known = bpf_map_lookup_elem(&torch_totals, &thread->device);
	if (known)
		return known;
	bpf_map_update_elem(&torch_totals, &thread->device, &thread->no_totals, BPF_NOEXIST);
	return bpf_map_lookup_elem(&torch_totals, &thread->device);
}

/* The allocator holds a lock of the device, so the sums that it says come in order. */
static __always_inline void add_to_totals(struct torch_totals *totals,
					  const struct torch_record *record)
{
	if (record->flags & TORCH_HAS_TOTALS) {
		totals->has_totals = 1;
		totals->allocated = record->allocated;
		totals->reserved = record->reserved;
		if (record->allocated > totals->peak)
			totals->peak = record->allocated;
	}
	if (record->bytes > 0) {
		__sync_fetch_and_add(&totals->allocations, 1);
		__sync_fetch_and_add(&totals->allocation_bytes, record->bytes);
	} else if (record->bytes < 0) {
		__sync_fetch_and_add(&totals->frees, 1);
		__sync_fetch_and_add(&totals->free_bytes, -record->bytes);
	}
}

static __always_inline void set_block_key(struct thread *thread)
{
	thread->block.address = thread->record.address;
	thread->block.since_ns = thread->traced.since_ns;
	thread->block.tgid = thread->traced.tgid;
}

static __always_inline void free_sampled(struct thread *thread, struct torch_sampling *sampling,
					 struct pt_regs *regs)
{
	struct torch_record *record;

	set_block_key(thread);
	if (bpf_map_delete_elem(&torch_blocks, &thread->block)) {
		ACCOUNT(events, 1); /* the table has the call */
		return;
	}
	__sync_fetch_and_add(&sampling->blocks, -1);
	thread->record.flags |= TORCH_SAMPLED;
	record = reserve_record();
	if (record) /* else the exporter finds that the table lacks the block */
		submit_record(thread, record, regs);
}

/* Is the block to be sampled? Sets its weight then. */
static __always_inline bool choose_block(struct thread *thread, struct torch_sampling *sampling)
{
	const __u64 rate = sampling->rate;
	const __u64 now_ns = bpf_ktime_get_ns();

	if (!torch_is_sampled(bpf_get_prandom_u32(), thread->record.bytes, rate))
		return false;
	if (now_ns - sampling->second_ns >= 1000000000) {
		sampling->second_ns = now_ns;
		sampling->second_samples = 0;
	}
	__sync_fetch_and_add(&sampling->second_samples, 1);
	if (sampling->second_samples > TORCH_SAMPLES_PER_SECOND && rate < TORCH_MAX_RATE) {
		sampling->rate = 2 * rate;
		sampling->second_samples = 0;
	}
	thread->record.weight = torch_weight(thread->record.bytes, rate);
	thread->record.flags |= TORCH_SAMPLED;
	return true;
}

static __always_inline void miss_block(struct torch_sampling *sampling)
{
	ACCOUNT(lost[LOST_allocation_table], 1);
	__sync_fetch_and_add(&sampling->missed, 1);
}

/* Of the chosen block. */
static __always_inline void send_block(struct thread *thread, struct torch_sampling *sampling,
				       struct pt_regs *regs)
{
	struct torch_record *record;

	if (sampling->blocks >= max_blocks_of_process) {
		miss_block(sampling);
		return;
	}
	record = reserve_record();
	if (!record) {
		__sync_fetch_and_add(&sampling->missed, 1);
		return;
	}
	set_block_key(thread);
	thread->block_ns = bpf_ktime_get_ns();
	/* It may be there: its free was not seen, and its record replaces it for the exporter. */
	if (!bpf_map_delete_elem(&torch_blocks, &thread->block))
		__sync_fetch_and_add(&sampling->blocks, -1);
	if (bpf_map_update_elem(&torch_blocks, &thread->block, &thread->block_ns, BPF_ANY)) {
		DISCARD(record);
		miss_block(sampling);
		return;
	}
	__sync_fetch_and_add(&sampling->blocks, 1);
	submit_record(thread, record, regs);
}

static __always_inline long allocate_sampled(struct thread *thread, struct torch_sampling *sampling,
					     struct pt_regs *regs)
{
	/* The memory of the CPU that is reported is shared memory and files. */
	if (!thread->record.device_type || !choose_block(thread, sampling)) {
		ACCOUNT(events, 1);
		return 1;
	}
	thread->record.python = PYTHON_STACK_NONE;
	thread->process.since_ns = thread->traced.since_ns;
	thread->process.tgid = thread->traced.tgid;
	if (python_stacks && interpreter_of(thread))
		return 1 | TORCH_PYTHON;
	send_block(thread, sampling, regs);
	return 1;
}

static __always_inline long enter_sampled(struct thread *thread, struct pt_regs *regs)
{
	struct torch_sampling *sampling = sampling_of(thread);
	struct torch_totals *totals;

	if (sampling && sampling->is_given_up) {
		ACCOUNT(lost[LOST_throttled], 1);
		return 1;
	}
	totals = totals_of(thread);
	if (!sampling || !totals) {
		ACCOUNT(lost[LOST_table_full], 1);
		return 1;
	}
	add_to_totals(totals, &thread->record);
	if (thread->record.bytes > 0)
		return allocate_sampled(thread, sampling, regs);
	if (thread->record.bytes < 0)
		free_sampled(thread, sampling, regs);
	else
		ACCOUNT(events, 1);
	return 1;
}

/* True: it is to run once more (find_python_of()). */
static __always_inline bool send_with_python(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&torch_threads, task, NULL, 0);
	struct torch_sampling *sampling;
	bool again;

	if (!thread)
		return false;
	thread->block_ns = bpf_ktime_get_ns();
	again = find_python_of(thread, task);
	thread->block_ns = bpf_ktime_get_ns() - thread->block_ns;
	add_torch_cost(thread,
		       thread->block_ns < PYTHON_LONGEST_NS ? thread->block_ns : PYTHON_LONGEST_NS);
	if (again)
		return true;
	sampling = sampling_of(thread);
	if (sampling)
		send_block(thread, sampling, regs);
	else
		ACCOUNT(lost[LOST_table_full], 1);
	return false;
}

/* The entry of a sampled allocation in a process of Python ends with this. */
SEC("uprobe")
int torch_python(struct pt_regs *regs)
{
	bool again;

	guard_begin();
	again = send_with_python(regs);
	guard_end();
	return continue_entry(regs, again ? 1 | TORCH_PYTHON : 1);
}

#endif
