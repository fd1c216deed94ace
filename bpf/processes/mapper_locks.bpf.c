// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Lists which processes that map a file hold the lock of their mappings at this moment. The kernel
 * waits for each of these locks when a uprobe is set in the file or removed, in a way that no
 * signal ends, and no process can fork meanwhile (dup_mmap_sem). The lists of mappings cannot say
 * it: the kernel makes them under the same lock, and a process can map a file in ways that they
 * leave out.
 *
 * So this walks the kernel's own tree of who maps the file, without a lock. A tree that changes
 * meanwhile can lead it past some, or into memory that is something else by then: it only reads. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/processes/mappings.h"

/* Of those, the kernel looks for mappings that could be executed (valid_vma() in
 * kernel/events/uprobes.c). */
#define VM_MAYEXEC  0x40
#define VM_MAYSHARE 0x80
#define VM_HUGETLB  0x400000

/* include/linux/rwbase_rt.h: readers are counted up from here. */
#define NOBODY_RT ((int)0x80000000)

enum { FROM_PARENT, FROM_LEFT, FROM_RIGHT };

#define MOVES_IN_RUN 128
#define HELD_IN_RUN  64

volatile int own_tgid = 0; /* the walk is done once, for this process */
volatile __u64 inode_address = 0;
volatile bool begins = 0;

/* The state of a run, for the next one: the walk is long, and one run of a program is not. */
volatile __u64 walked_node = 0; /* the address of an rb_node; 0: the walk has ended */
volatile __u32 came_from = 0;
volatile __u32 held_in_run = 0;

/* Which process has most of the mappings, if one has more than half of them: each mapping of it is
 * a vote for it, and each other one is a vote against it. */
volatile __u64 leader = 0; /* its mm_struct */
volatile __u32 leader_tgid = 0;
volatile __u32 votes = 0;

struct held_lock found; /* not on the program's stack, which is short */

static __always_inline bool is_held(struct mm_struct *mm)
{
	struct rw_semaphore___rt *rt = (void *)&mm->mmap_lock;
	__u64 count;

	found.holder = 0;
	if (bpf_core_field_exists(rt->rwbase))
		return BPF_CORE_READ(rt, rwbase.readers.counter) != NOBODY_RT;
	/* A writer in bit 0, readers from bit 8 on; the others say who waits. */
	count = BPF_CORE_READ(mm, mmap_lock.count.counter);
	if (count & 1)
		found.holder = BPF_CORE_READ(mm, mmap_lock.owner.counter);
	return count & 0x7fffffffffffff01;
}

static __always_inline void vote(struct mm_struct *mm)
{
	if (votes > 0) {
		votes = leader == (__u64)mm ? votes + 1 : votes - 1;
		return;
	}
	leader = (__u64)mm;
	leader_tgid = bpf_core_field_exists(mm->owner) ? BPF_CORE_READ(mm, owner, tgid) : 0;
	votes = 1;
}

static __always_inline void look_at(struct bpf_iter_meta *meta, struct rb_node *node)
{
	struct vm_area_struct *vma =
	    (void *)node - bpf_core_field_offset(((struct vm_area_struct *)0)->shared.rb);
	struct mm_struct *mm = BPF_CORE_READ(vma, vm_mm);

	if ((BPF_CORE_READ(vma, vm_flags) & (VM_MAYEXEC | VM_MAYSHARE | VM_HUGETLB)) !=
		VM_MAYEXEC ||
	    !mm)
		return;
	vote(mm);
	if (!is_held(mm))
		return;
	found.memory = (__u64)mm;
	if (bpf_core_field_exists(mm->owner))
		found.tgid = BPF_CORE_READ(mm, owner, tgid);
	held_in_run++;
	bpf_seq_write(meta->seq, &found, sizeof(found));
}

static __always_inline void move(struct bpf_iter_meta *meta)
{
	struct rb_node *node = (void *)walked_node;
	struct rb_node *next;

	if (came_from == FROM_PARENT) {
		look_at(meta, node);
		next = BPF_CORE_READ(node, rb_left);
		if (next) {
			walked_node = (__u64)next;
			return;
		}
		came_from = FROM_LEFT;
	}
	if (came_from == FROM_LEFT) {
		next = BPF_CORE_READ(node, rb_right);
		if (next) {
			walked_node = (__u64)next;
			came_from = FROM_PARENT;
			return;
		}
	}
	next = (void *)(BPF_CORE_READ(node, __rb_parent_color) & ~3UL);
	came_from = next && BPF_CORE_READ(next, rb_left) == node ? FROM_LEFT : FROM_RIGHT;
	walked_node = (__u64)next;
}

SEC("iter/task")
int mapper_locks(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct inode *inode = (void *)inode_address;

	if (!task || task->tgid != own_tgid || task->pid != own_tgid)
		return 0;
	if (begins) {
		walked_node = (__u64)BPF_CORE_READ(inode, i_mapping, i_mmap.rb_root.rb_node);
		came_from = FROM_PARENT;
		votes = 0;
		begins = 0;
	}
	held_in_run = 0;
	for (int moves = 0; moves < MOVES_IN_RUN; moves++) {
		if (!walked_node || held_in_run >= HELD_IN_RUN)
			break;
		move(context->meta);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
