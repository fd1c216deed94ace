/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reads what is sent once of the current process: its arguments, and the path of its cgroup.
 *
 * Uprobe programs have hardly any stack. So each step finds by itself where to read, no loop has a
 * counter that is kept in a register, and pointers are read into the record. */
#ifndef GPUSNOOP_PROCESS_DETAILS_BPF_H
#define GPUSNOOP_PROCESS_DETAILS_BPF_H

#include "bpf/lib/process.bpf.h"

/* Pieces in which the end of a long argument is looked for: 5 KiB in all. */
#define ARGUMENT_PIECES 16

/* The pointers are at the end of the level of the path that is filled last. */
#define DETAILS_SCRATCH(to)                                                                        \
	((void *)((to)->path[PROCESS_PATH_LEVELS - 1] + PROCESS_PATH_BYTES - 2 * sizeof(void *)))

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

static __always_inline void read_path(struct process_details *to)
{
	struct kernfs_node **node = DETAILS_SCRATCH(to);

	read_v1_directory(node);
	node[1] = node[0];
	read_directory_above(node + 1);
	if (!node[1]) /* it has no directory, or only the uppermost */
		read_directory(node, bpf_get_current_task_btf());
#pragma unroll
	for (int i = 0; i < PROCESS_PATH_LEVELS; i++) {
		READ_INTO(node + 1, node[0], name);
		read_directory_above(node);
		to->path[i][0] = 0;
		bpf_probe_read_kernel_str(to->path[i],
					  i + 1 < PROCESS_PATH_LEVELS ? PROCESS_PATH_BYTES
								      : PROCESS_PATH_BYTES - 16,
					  node[1]);
	}
	node[0] = node[1] = NULL;
}

static __always_inline void fill_details(struct process_details *to)
{
	read_arguments(&to->arguments, DETAILS_SCRATCH(to));
	read_path(to);
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
