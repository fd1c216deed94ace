/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reads what is sent once of the current process: its arguments, the id of its Slurm job in its
 * environment, and the path of its cgroup.
 *
 * Uprobe programs have hardly any stack. So each step finds by itself where to read, no loop has a
 * counter that is kept in a register, and pointers are read into the record. */
#ifndef GPUSNOOP_PROCESS_DETAILS_BPF_H
#define GPUSNOOP_PROCESS_DETAILS_BPF_H

#include "bpf/lib/processes/process.bpf.h"

/* Pieces in which the end of a long argument is looked for: 5 KiB in all. */
#define ARGUMENT_PIECES 16

/* Moves rest_at to where the argument ends that the head cuts. False: it is too long, or it cannot
 * be read. The pieces are scratch. */
static __always_inline bool find_end_of_argument(struct process_arguments *to,
						 const char **arguments)
{
	to->rest_at = PROCESS_ARGUMENTS_HEAD;
#pragma unroll
	for (int i = 0; i < ARGUMENT_PIECES; i++) {
		long length =
		    bpf_probe_read_user_str(to->rest, sizeof(to->rest), *arguments + to->rest_at);

		if (length <= 0)
			return false;
		to->rest_at += length;
		if (length < (long)sizeof(to->rest))
			return true;
		to->rest_at--; /* the NUL is the helper's */
	}
	return false;
}

static __always_inline void read_rest(struct process_arguments *to, const char **arguments)
{
	__u32 length;

	if (!find_end_of_argument(to, arguments))
		return;
	if (to->rest_at > to->total)
		to->rest_at = to->total; /* a NUL of the environment ended it */
	to->rest_at -= PROCESS_ARGUMENTS_TAIL;
	length = to->total - to->rest_at;
	barrier_var(length);
	if (length > sizeof(to->rest))
		length = sizeof(to->rest);
	to->rest_bytes = length;
	if (bpf_probe_read_user(to->rest, length, *arguments + to->rest_at))
		to->rest_bytes = 0;
}

/* The kernel does not wait for memory here: arguments that are not in memory are not read, and
 * total stays 0. */
static __always_inline void read_arguments(struct process_arguments *to, const char **arguments)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	__u32 length;

	to->total = to->rest_at = to->reserved = 0;
	to->head_bytes = to->rest_bytes = 0;
	if (!mm)
		return;
	*arguments = (const char *)mm->arg_start;
	to->total = length = mm->arg_end - mm->arg_start;
	barrier_var(length);
	if (length > sizeof(to->head))
		length = sizeof(to->head);
	to->head_bytes = length;
	if (bpf_probe_read_user(to->head, length, *arguments))
		to->total = to->head_bytes = 0;
	else if (to->total > sizeof(to->head))
		read_rest(to, arguments);
}

/* In the v1 hierarchy of the freezer, in which Slurm and the container runtimes put every process.
 * NULL: there is none. */
static __always_inline void read_v1_directory(void *node)
{
	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, freezer_cgrp_id)) {
		*(__u64 *)node = 0;
		return;
	}
	READ_INTO(node, bpf_get_current_task_btf(), cgroups);
	bpf_probe_read_kernel(node, sizeof(void *),
			      (const char *)&(*(struct css_set **)node)->subsys +
				  bpf_core_enum_value(enum cgroup_subsys_id, freezer_cgrp_id) *
				      sizeof(void *));
	READ_INTO(node, *(struct cgroup_subsys_state **)node, cgroup);
	READ_INTO(node, *(struct cgroup **)node, kn);
}

#define CGROUP_NODES(to) ((struct kernfs_node **)(to)->scratch)

/* Adds the directory of the first node to the path; the second is scratch. False: no room. */
static __always_inline bool read_level(struct process_cgroup *to, __u16 bit)
{
	const struct kernfs_iattrs *owner;
	const struct kernfs_node *node;
	__u32 at = to->bytes;
	long length;

	barrier_var(at);
	if (at > sizeof(to->names) - PROCESS_NAME_BYTES)
		return false;
	node = CGROUP_NODES(to)[0]; /* not in the macro: scratch is no field of the kernel's */
	READ_INTO(CGROUP_NODES(to) + 1, node, name);
	barrier_var(to);
	length = bpf_probe_read_kernel_str(to->names + at, PROCESS_NAME_BYTES, CGROUP_NODES(to)[1]);
	barrier_var(to);
	if (length <= 0)
		return false;
	to->bytes += length;
	to->levels++;
	node = CGROUP_NODES(to)[0];
	READ_INTO(CGROUP_NODES(to) + 1, node, iattr);
	barrier_var(to);
	if (to->scratch[1]) {
		owner = (struct kernfs_iattrs *)to->scratch[1];
		bpf_core_read(to->scratch + 1, sizeof(__u32), &owner->ia_uid);
		if (*(__u32 *)(to->scratch + 1))
			to->not_root |= bit;
	}
	return true;
}

/* The second node: the directory above the first one. */
static __always_inline void read_above(struct process_cgroup *to)
{
	to->scratch[1] = to->scratch[0];
	read_directory_above(CGROUP_NODES(to) + 1);
}

/* Of the current process. Returns `to`: see FILL_PART. */
static __always_inline struct process_cgroup *read_cgroup(struct process_cgroup *to)
{
	to->bytes = to->levels = to->not_root = to->is_whole = 0;
	read_v1_directory(to->scratch);
	read_above(to);
	if (!to->scratch[1]) /* it has no directory, or only the uppermost */
		read_directory(to->scratch, bpf_get_current_task_btf());
#pragma unroll
	for (int i = 0; i <= PROCESS_PATH_LEVELS; i++) {
		barrier_var(to); /* else the compiler keeps addresses in it on the stack */
		read_above(to);
		if (!to->scratch[1]) {
			to->is_whole = to->scratch[0] != 0;
			break;
		}
		if (i == PROCESS_PATH_LEVELS || !read_level(to, 1U << i))
			break;
		barrier_var(to);
		read_directory_above(CGROUP_NODES(to));
	}
	to->scratch[0] = to->scratch[1] = 0;
	return to;
}

/* Pieces in which the environment is searched. A variable has one for each 63 bytes. */
#define ENVIRONMENT_PIECES 256

/* "SLURM_JOB_ID=", as numbers of either byte order. */
static __always_inline bool is_slurm_job_id(const char *variable)
{
	static const char expected[16] __attribute__((aligned(8))) = "SLURM_JOB_ID=";

	return *(const __u64 *)variable == *(const __u64 *)expected &&
	       *(const __u32 *)(variable + 8) == *(const __u32 *)(expected + 8) &&
	       variable[12] == expected[12];
}

/* As above, the kernel does not wait for memory. */
static __always_inline struct process_details *read_slurm_job_id(struct process_details *to)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;

	to->slurm_job_id[0] = 0;
	if (!mm)
		return to;
	to->cgroup.scratch[0] = mm->env_start;
	to->cgroup.scratch[1] = 0; /* is this the rest of a long variable? */
#pragma unroll 1
	for (int i = 0; i < ENVIRONMENT_PIECES; i++) {
		long length;

		barrier_var(to);
		length = bpf_probe_read_user_str(to->slurm_job_id, PROCESS_VARIABLE_BYTES,
						 (const char *)to->cgroup.scratch[0]);
		if (length <= 1) /* the end, at the latest */
			break;
		if (!to->cgroup.scratch[1] && is_slurm_job_id(to->slurm_job_id))
			return to;
		to->cgroup.scratch[1] = length == PROCESS_VARIABLE_BYTES;
		to->cgroup.scratch[0] += length - to->cgroup.scratch[1]; /* its NUL is not there */
	}
	to->slurm_job_id[0] = 0;
	return to;
}

/* Fills a part of a record by a function that returns where the part is. The functions hide that
 * from the compiler, which would keep addresses in it on the stack; so the record is found from the
 * part again, and needs no place there either. */
#define FILL_PART(record, part, fill)                                                              \
	((record) = (void *)((char *)fill(&(record)->part) -                                       \
			     __builtin_offsetof(typeof(*(record)), part)))

static __always_inline struct process_details *fill_details(struct process_details *to)
{
	read_arguments(&to->arguments, (void *)to->cgroup.scratch);
	to = read_slurm_job_id(to);
	FILL_PART(to, cgroup, read_cgroup);
	return to;
}

/* For a thread that sends the details with its first record: has it sent them since its process's
 * last exec? */
struct described {
	__u64 execs_plus_1; /* then; 0: never */
};

static __always_inline bool is_described(const struct described *described)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return described->execs_plus_1 == task->group_leader->self_exec_id + 1;
}

static __always_inline void set_described(struct described *described)
{
	struct task_struct *task = bpf_get_current_task_btf();

	described->execs_plus_1 = task->group_leader->self_exec_id + 1;
}

#endif
