/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Why a thread blocks that leaves its CPU, and the rest of how it leaves. */
#ifndef GPUSNOOP_HOST_TIME_BLOCKED_BPF_H
#define GPUSNOOP_HOST_TIME_BLOCKED_BPF_H

#include "bpf/host_time/accounts.bpf.h"

/* The class of each system call. */
const volatile __u8 classes[HOST_CALLS] = {};

/* Bits of the kernel's __state, as in its include/linux/sched.h. */
#define TASK_STOPPED 4
#define TASK_TRACED  8

/* As in the kernel's include/uapi/linux/stat.h and magic.h. */
#define S_IFMT		    0170000
#define S_IFSOCK	    0140000
#define S_IFREG		    0100000
#define S_IFBLK		    0060000
#define S_IFDIR		    0040000
#define S_IFCHR		    0020000
#define S_IFIFO		    0010000
#define ANON_INODE_FS_MAGIC 0x09041934

static __always_inline enum host_state state_of_mode(__u32 mode)
{
	switch (mode & S_IFMT) {
	case S_IFSOCK:
		return HOST_STATE_socket;
	case S_IFIFO:
		return HOST_STATE_pipe;
	case S_IFCHR:
		return HOST_STATE_device;
	case S_IFREG:
	case S_IFDIR:
	case S_IFBLK:
		return HOST_STATE_file;
	}
	return HOST_STATE_other;
}

/* Reads what a pointer in the scratch points to, over it. */
#define FOLLOW(scratch, type, field)                                                               \
	({                                                                                         \
		const struct type *from_ = (const void *)*(scratch);                               \
		*(scratch) = 0;                                                                    \
		bpf_core_read((scratch), sizeof(from_->field), &from_->field);                     \
	})

/* Another thread may close the descriptor meanwhile: then the state is wrong, and nothing else. */
static __always_inline enum host_state state_of_descriptor(struct task_struct *task, __u32 number,
							   __u64 *scratch)
{
	struct fdtable *table = task->files ? task->files->fdt : NULL;
	enum host_state state;
	__u64 inode;

	if (!table || number >= table->max_fds)
		return HOST_STATE_other;
	if (bpf_probe_read_kernel(scratch, sizeof(*scratch), table->fd + number))
		return HOST_STATE_other;
	FOLLOW(scratch, file, f_inode);
	inode = *scratch;
	FOLLOW(scratch, inode, i_mode);
	state = state_of_mode(*scratch);
	if (state != HOST_STATE_file)
		return state;
	/* From 6.16 on, what has no file of its own looks like a regular one, too. */
	*scratch = inode;
	FOLLOW(scratch, inode, i_sb);
	FOLLOW(scratch, super_block, s_magic);
	return *scratch == ANON_INODE_FS_MAGIC ? HOST_STATE_other : HOST_STATE_file;
}

/* The current thread's system call; negative: it is in none. */
static __always_inline long system_call(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->orig_ax;
#else
	return ((struct pt_regs___syscall *)regs)->syscallno;
#endif
}

static __always_inline __u64 first_argument(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->di;
#else
	return ((struct pt_regs___syscall *)regs)->orig_x0;
#endif
}

static __always_inline bool is_32_bit_call(struct task_struct *task, long number)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread_info.status & 2 || number & 0x40000000; /* TS_COMPAT; x32 */
#else
	return task->thread_info.flags & (1 << 22); /* TIF_32BIT */
#endif
}

/* Why does the current thread block, and in which system call? If for a file, *scratch becomes the
 * magic number of its file system, or 0. */
static __always_inline enum host_state blocked_state(struct task_struct *task, __u64 *scratch,
						     __u16 *call)
{
	struct pt_regs *regs;
	long number;
	__u8 class;

	*scratch = 0;
	*call = HOST_NO_CALL;
	if (task->__state & (TASK_STOPPED | TASK_TRACED))
		return HOST_STATE_stopped;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	number = system_call(regs);
	if (number < 0)
		return HOST_STATE_page_fault;
	if (number >= HOST_CALLS || is_32_bit_call(task, number))
		return HOST_STATE_other;
	*call = number;
	class = classes[number & (HOST_CALLS - 1)];
	return class == HOST_BY_DESCRIPTOR
		   ? state_of_descriptor(task, first_argument(regs), scratch)
		   : class;
}

/* The current thread leaves its CPU at `now_ns`. */
static __always_inline void note_departure(struct departure *left, struct task_struct *task,
					   __u64 now_ns, bool is_ready)
{
	__u64 filesystem;

	left->at_ns = now_ns;
	left->run_delay_ns = task->sched_info.run_delay;
	left->ran_ns = task->se.sum_exec_runtime;
	left->arrivals = task->sched_info.pcount;
	left->throttled_ns = throttled_ns(task);
	if (is_ready) {
		left->state = is_throttled(task) ? HOST_STATE_throttled : HOST_STATE_runnable;
		left->call = HOST_NO_CALL;
		return;
	}
	left->state = blocked_state(task, &filesystem, &left->call);
	left->filesystem = filesystem;
}

/* How long the current thread has been on its CPU. `ran_ns`: since it left one the last time. */
static __always_inline __u64 on_cpu_ns(const struct departure *left, struct task_struct *task,
				       __u64 now_ns, __u64 ran_ns)
{
	/* A kernel up to 6.1 may have left out a run of the hook. */
	if (task->sched_info.pcount - left->arrivals > 1)
		return ran_ns;
	return now_ns - task->sched_info.last_arrival;
}

/* How long it was off the CPU before that. */
static __always_inline __u64 off_cpu_ns(const struct departure *left, __u64 now_ns, __u64 on_ns)
{
	__s64 off_ns = now_ns - left->at_ns - on_ns;

	return off_ns < 0 ? 0 : off_ns;
}

#endif
