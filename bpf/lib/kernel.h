/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The kernel types that our programs read, and of each only the fields they read. libbpf moves
 * every access to where the running kernel has the field (CO-RE), so no dumped vmlinux.h is needed.
 */
#ifndef GPUSNOOP_KERNEL_H
#define GPUSNOOP_KERNEL_H

/* bpf_tracing.h then uses the register names of the kernel's pt_regs, declared below. */
#define __VMLINUX_H__

#include <linux/bpf.h>
#include <linux/types.h>

/* libbpf's barrier_var(index) stands before each check of an index: without it, the compiler
 * computes an address from the index before it checks it, which the verifier refuses. */

typedef _Bool bool;
#define true  1
#define false 0

/* A uprobe program's context: the user registers, at fixed places (they are the program's ABI). */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
struct pt_regs {
	struct user_pt_regs user_regs;
};
#else
#error "gpusnoop traces x86_64 and arm64"
#endif

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct user_namespace {
	int level; /* 0: the first one */
};

struct super_block {
	__u32 s_dev; /* MAJOR << 20 | MINOR */
	unsigned long s_magic;
	struct user_namespace *s_user_ns; /* in which it was mounted */
};

struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
};

struct rb_node {
	unsigned long __rb_parent_color; /* the parent's address, and two bits */
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

struct address_space {
	struct rb_root_cached i_mmap; /* of vm_area_struct: who maps the file */
};

struct inode {
	__u16 i_mode;
	struct address_space *i_mapping;
	unsigned long i_ino;
	__u32 i_generation;
	__s64 i_size;
	__s64 i_mtime_sec;
	__u32 i_mtime_nsec;
	struct super_block *i_sb;
};

/* Until 6.10: commit 3aa63a569c64 ("fs: switch timespec64 fields in inode to discrete integers").
 */
struct inode___before_6_11 {
	struct timespec64 __i_mtime;
};

/* Until 6.6: commit 12cd44023651 ("fs: rename inode i_atime and i_mtime fields"). */
struct inode___before_6_7 {
	struct timespec64 i_mtime;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct vfsmount {
	struct super_block *mnt_sb;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	unsigned int f_mode;
	struct inode *f_inode;
	struct path f_path;
};

/* A file below an overlay, for one of the overlay. Before 6.7, its f_path is the overlay's: commit
 * def3ae83da02 ("fs: store real path instead of fake path in backing file f_path"). */
struct backing_file {
	struct path user_path; /* on the overlay */
};

struct xol_area { /* the page whose first instruction is the return probes' trampoline */
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

typedef struct {
	__s64 counter;
} atomic64_t;

typedef struct {
	int counter;
} atomic_t;

struct rw_semaphore {
	atomic64_t count; /* readers, and whether a writer has it or somebody waits */
	atomic64_t owner; /* the address of a task, and some bits */
};

struct rwbase_rt {
	atomic_t readers;
};

struct rw_semaphore___rt { /* kernels with CONFIG_PREEMPT_RT */
	struct rwbase_rt rwbase;
};

struct task_struct;

struct percpu_counter {
	__s64 count; /* but for what CPUs have not added to it yet */
};

struct mm_struct {
	unsigned long start_code;
	unsigned long end_code;
	unsigned long arg_start;
	unsigned long arg_end;
	unsigned long env_start;
	struct file *exe_file;
	struct uprobes_state uprobes_state;
	struct rw_semaphore mmap_lock;
	struct task_struct *owner;	   /* kernels with CONFIG_MEMCG */
	struct percpu_counter rss_stat[4]; /* pages: of files, anonymous, swapped out, shared */
	unsigned long locked_vm;	   /* pages */
	atomic64_t pinned_vm;		   /* pages */
};

/* Until 6.1: commit f1a7941243c1 ("mm: convert mm's rss stats into percpu_counter"). */
struct mm_rss_stat {
	atomic64_t count[4];
};

struct mm_struct___before_6_2 {
	struct mm_rss_stat rss_stat;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_pgoff;
	unsigned long vm_flags;
	struct mm_struct *vm_mm;
	struct file *vm_file;
	struct {
		struct rb_node rb;
	} shared; /* in the tree of the file's address_space */
};

struct task_io_accounting {
	__u64 read_bytes;
	__u64 write_bytes;
};

struct signal_struct {
	atomic_t live;		  /* threads that have not begun to exit */
	unsigned int flags;	  /* SIGNAL_* */
	int group_exit_code;	  /* as exit_code of a task, if all threads end together */
	struct mm_struct *oom_mm; /* its memory, if it was killed for lack of memory */
	/* Of the threads that have ended and are forgotten. */
	unsigned long long sum_sched_runtime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct task_io_accounting ioac;
};

typedef struct {
	__u32 val;
} kuid_t;

/* Until 6.14: commit 633488947ef6 ("kernfs: Use RCU to access kernfs_node::parent") renamed it. */
struct kernfs_node___before_6_15 {
	struct kernfs_node *parent;
};

struct kernfs_iattrs {
	kuid_t ia_uid;
};

struct kernfs_node {
	const char *name;
	struct kernfs_node *__parent;
	struct kernfs_iattrs *iattr; /* NULL: root's, as it was made */
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1]; /* by enum cgroup_subsys_id */
	struct cgroup *dfl_cgrp;	       /* the task's cgroup in the v2 hierarchy */
};

enum cgroup_subsys_id {
	freezer_cgrp_id,
};

struct cred {
	kuid_t uid;
};

struct thread_info {
	unsigned long flags;
	unsigned long syscall_work; /* where the kernel's entry code is the generic one */
	__u32 status;		    /* x86 */
};

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

struct sighand_struct {
	struct k_sigaction action[64];
};

struct kernel_siginfo {
	int si_signo;
	int si_errno;
	int si_code;
};

struct return_instance {     /* a call with a return probe */
	unsigned long stack; /* where its return address lies */
	unsigned long orig_ret_vaddr;
	struct return_instance *next; /* the call around it */
};

struct uprobe_task {
	struct return_instance *return_instances; /* the innermost */
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct rq {
	__u64 clock;
	int cpu;
};

struct cfs_rq {
	struct rq *rq; /* kernels with CONFIG_FAIR_GROUP_SCHED */
};

struct cfs_rq___throttle_count {
	int throttle_count;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct sched_info {			 /* kernels with CONFIG_SCHED_INFO */
	unsigned long pcount;		 /* how often it got a CPU */
	unsigned long long run_delay;	 /* how long it waited for one */
	unsigned long long last_arrival; /* when it got the last one */
	unsigned long long last_queued;	 /* since when it waits; 0: it does not */
};

struct cfs_bandwidth {
	__u64 throttled_time;
};

struct task_group {
	struct cfs_bandwidth cfs_bandwidth;
	struct task_group *parent;
};

struct bpf_local_storage;

struct task_struct___throttled { /* from 6.18 on */
	bool throttled;
};

/* What the kernel keeps while a program runs: bpf/lib/run_context.bpf.h. */
struct bpf_run_ctx {
};

struct bpf_session_run_ctx { /* from 6.13 on */
	bool is_return;
};

struct bpf_uprobe {
	__u64 cookie;
};

struct bpf_uprobe_multi_run_ctx {
	struct bpf_session_run_ctx session_ctx;
	struct bpf_uprobe *uprobe;
};

struct upid {
	int nr; /* in that namespace */
};

struct pid {
	unsigned int level;	/* of the innermost namespace of ids that it is in */
	struct upid numbers[1]; /* by level */
};

struct task_struct {
	struct thread_info thread_info;
	struct bpf_run_ctx *bpf_ctx;
	void *stack;	      /* the lowest address of its kernel stack */
	unsigned int flags;   /* PF_* */
	unsigned int __state; /* TASK_* */
	int exit_code;	      /* as wait() has it: the lower 7 bits are a signal */
	int pid;
	int tgid;
	char comm[16];
	__u64 self_exec_id; /* a process counts its execs here, from its parent's count on */
	struct cred *cred;
	__u64 start_time; /* CLOCK_MONOTONIC */
	__u64 start_boottime;
	unsigned long sas_ss_sp; /* the alternate signal stack, if any */
	unsigned long sas_ss_size;
	struct task_struct *group_leader;
	struct task_struct *real_parent; /* a thread of the process that started the task's */
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct task_io_accounting ioac;
	struct css_set *cgroups;
	struct uprobe_task *utask; /* NULL: it has met no uprobe yet */
	struct task_group *sched_task_group;
	struct files_struct *files;
	struct bpf_local_storage *bpf_storage; /* NULL: no BPF program keeps anything of it */
	struct pid *thread_pid;
};

#if defined(__TARGET_ARCH_arm64)
struct pt_regs___syscall {
	__u64 orig_x0;
	__s32 syscallno;
};
#endif

struct pci_bus {
	struct pci_bus *parent;
	void *sysdata; /* struct pci_sysdata, where there is no domain_nr */
	unsigned char number;
	int domain_nr; /* kernels with CONFIG_PCI_DOMAINS_GENERIC, such as those for arm64 */
};

struct pci_sysdata { /* x86 */
	int domain;
};

struct pci_dev {
	struct pci_bus *bus;
	unsigned int devfn;
};

struct linux_binprm {
	int argc;
};

struct dma_fence {
	__u64 context;
	__u64 seqno;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id; /* of all that is read through one descriptor */
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *key;
	void *value;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

#pragma clang attribute pop

#endif
