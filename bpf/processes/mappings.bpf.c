// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Lists the executable file mappings of all processes or of one: which libraries are in use, and
 * which file, exactly, each of them is. Unlike /proc/PID/maps it needs no rights over the process
 * and names the inode that a uprobe would attach to. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/maps.bpf.h"
#include "bpf/processes/mappings.h"

#define VM_EXEC		      0x4
#define PF_FORKNOEXEC	      0x40
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define FMODE_NOACCOUNT	      0x20000000

/* List only this process; 0: all of them. Kernels before 6.1 always list all. */
volatile int only_tgid = 0;

/* A child that an exporter forked to read files of others maps the exporter's files and the files
 * that it reads, but does not use them. There may be other exporters on the node. */
volatile int list_readers = 0;

/* How many have been listed of a process, of which the kernel lists all before it goes on. */
static __u64 listed_in;
static int listed_of;
static __u32 listed;

/* Of a process whose first thread has ended, one of the others is listed. */
struct listed_thread {
	__u64 session_id;
	int tid;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32); /* tgid */
	__type(value, struct listed_thread);
} mapping_chosen SEC(".maps");

/* Not on the program's stack, which is short. */
static __u32 standing_for;
static struct listed_thread standing;

struct task_struct___execs {
	__u64 self_exec_id;
} __attribute__((preserve_access_index));

PERCPU_MAP(mapping_scratch, 1, struct mapping_record);

/* A program that takes this name hides its files from discovery, which it could also do by having
 * none: probes on a file that others use see its calls all the same. */
static __always_inline bool is_reader(struct task_struct *task)
{
	char comm[16];

	if (!(task->flags & PF_FORKNOEXEC))
		return false;
	bpf_probe_read_kernel_str(comm, sizeof(comm), task->comm);
	return __builtin_memcmp(comm, FOREIGN_READER, sizeof(FOREIGN_READER)) == 0;
}

static __always_inline bool stands_for_process(struct bpf_iter_meta *meta, struct task_struct *task)
{
	struct listed_thread *known;

	if (task->tgid == task->pid)
		return true;
	if (task->group_leader->mm)
		return false;
	standing_for = task->tgid;
	standing.session_id = meta->session_id;
	standing.tid = task->pid;
	known = bpf_map_lookup_elem(&mapping_chosen, &standing_for);
	if (known && known->session_id == standing.session_id)
		return known->tid == standing.tid;
	bpf_map_update_elem(&mapping_chosen, &standing_for, &standing, BPF_ANY);
	return true;
}

static __always_inline __u64 modified_ns(struct inode *inode)
{
	struct inode___before_6_11 *before_6_11 = (void *)inode;
	struct inode___before_6_7 *before_6_7 = (void *)inode;

	if (bpf_core_field_exists(inode->i_mtime_sec))
		return inode->i_mtime_sec * 1000000000 + inode->i_mtime_nsec;
	if (bpf_core_field_exists(before_6_11->__i_mtime))
		return BPF_CORE_READ(before_6_11, __i_mtime.tv_sec) * 1000000000 +
		       BPF_CORE_READ(before_6_11, __i_mtime.tv_nsec);
	if (bpf_core_field_exists(before_6_7->i_mtime))
		return BPF_CORE_READ(before_6_7, i_mtime.tv_sec) * 1000000000 +
		       BPF_CORE_READ(before_6_7, i_mtime.tv_nsec);
	return 0;
}

static __always_inline bool has_room(struct bpf_iter_meta *meta, struct task_struct *task)
{
	if (listed_in != meta->session_id || listed_of != task->tgid)
		listed = 0;
	listed_in = meta->session_id;
	listed_of = task->tgid;
	return listed++ < MAPPINGS_OF_PROCESS;
}

/* On overlayfs, a process opens the overlay's file and maps the one below it, which is another file
 * with another inode. These are the names on the overlay. The flag FMODE_BACKING is not the same
 * bit in all kernels; FMODE_NOACCOUNT is, is set with it, and programs map no other file that has
 * it. */
static __always_inline bool is_below_overlay(struct file *file)
{
	return bpf_core_field_exists(((struct backing_file *)file)->user_path) &&
	       file->f_mode & FMODE_NOACCOUNT;
}

static __always_inline struct dentry *opened_name(struct file *file)
{
	return is_below_overlay(file) ? BPF_CORE_READ((struct backing_file *)file, user_path.dentry)
				      : file->f_path.dentry;
}

static __always_inline struct super_block *opened_on(struct file *file)
{
	return is_below_overlay(file)
		   ? BPF_CORE_READ((struct backing_file *)file, user_path.mnt, mnt_sb)
		   : BPF_CORE_READ(file, f_path.mnt, mnt_sb);
}

static __always_inline bool is_program(struct file *exe, struct file *file)
{
	if (exe->f_inode == file->f_inode)
		return true;
	return exe->f_inode->i_sb->s_magic == OVERLAYFS_SUPER_MAGIC &&
	       (__u64)exe->f_path.dentry == (__u64)opened_name(file);
}

static __always_inline void fill_program(struct mapping_record *record, struct file *exe,
					 struct file *file)
{
	record->is_program = 0;
	record->program_inode = 0;
	record->program_device = 0;
	record->program_generation = 0;
	if (!exe || !is_program(exe, file))
		return;
	record->is_program = 1;
	record->program_inode = exe->f_inode->i_ino;
	record->program_device = exe->f_inode->i_sb->s_dev;
	record->program_generation = exe->f_inode->i_generation;
}

SEC("iter/task_vma")
int mapping_list(struct bpf_iter__task_vma *context)
{
	struct task_struct *task = context->task;
	struct vm_area_struct *vma = context->vma;
	struct mapping_record *record;
	struct file *file;
	__u32 zero = 0;

	if (!task || !vma || (only_tgid && task->tgid != only_tgid))
		return 0;
	if (!(vma->vm_flags & VM_EXEC) || (!list_readers && is_reader(task)))
		return 0;
	file = vma->vm_file;
	if (!file || !stands_for_process(context->meta, task) || !has_room(context->meta, task))
		return 0;
	record = bpf_map_lookup_elem(&mapping_scratch, &zero);
	if (!record)
		return 0;
	record->start = vma->vm_start;
	record->end = vma->vm_end;
	record->file_page = vma->vm_pgoff;
	record->inode_address = (__u64)file->f_inode;
	record->inode = file->f_inode->i_ino;
	record->device = file->f_inode->i_sb->s_dev;
	record->generation = file->f_inode->i_generation;
	record->tgid = task->tgid;
	record->tid = task->pid;
	fill_program(record, task->mm ? task->mm->exe_file : NULL, file);
	record->is_mounted_by_user = BPF_CORE_READ(opened_on(file), s_user_ns, level) > 0;
	record->file_system = file->f_inode->i_sb->s_magic;
	record->bytes = file->f_inode->i_size;
	record->modified_ns = modified_ns(file->f_inode);
	record->started_ns = task->group_leader->start_boottime;
	record->execs = BPF_CORE_READ((struct task_struct___execs *)task, self_exec_id);
	__builtin_memset(record->name, 0, sizeof(record->name));
	bpf_probe_read_kernel_str(record->name, sizeof(record->name),
				  file->f_path.dentry->d_name.name);
	if (bpf_seq_write(context->meta->seq, record, sizeof(*record)))
		listed--; /* its buffer is full: the kernel comes back to this mapping */
	return 0;
}

/* The threads that return through the kernel's code for return probes, of any tool: the address on
 * their stacks is not the program's. */
SEC("iter/task")
int mapping_threads(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct probed_thread_record record;

	if (!task || task->tgid != only_tgid || !task->utask || !task->utask->return_instances)
		return 0;
	record.tgid = task->tgid;
	record.tid = task->pid;
	bpf_seq_write(context->meta->seq, &record, sizeof(record));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
