/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* One executable file mapping of one process, as the kernel has it. */
#ifndef GPUSNOOP_MAPPINGS_H
#define GPUSNOOP_MAPPINGS_H

#include "bpf/lib/wire.h"

#define MAPPING_NAME_BYTES 128

/* The most that are listed of a process: the first ones. A program with all of PyTorch has some
 * hundreds. */
#define MAPPINGS_OF_PROCESS 8192

/* The name of the exporter's processes that read files of others (comm). */
#define FOREIGN_READER "gpusnoop_reader"

struct mapping_record {
	__u64 start;
	__u64 end;
	__u64 file_page; /* where it begins in the file, in the machine's pages */
	/* The inode that uprobes attach to. On overlayfs this is the lower file's, which /proc does
	 * not show, and which all containers of one image share. */
	__u64 inode;
	/* Tells apart the inodes of two btrfs snapshots, whose numbers are the same. Never shown.
	 */
	__u64 inode_address;
	__u32 device; /* MAJOR << 20 | MINOR */
	__u32 generation;
	__u32 tgid;
	__u32 tid; /* a thread that has it: the process's first one, or any when that has ended */
	__u32 is_program;  /* the process's own executable */
	__u32 file_system; /* its magic number (linux/magic.h) */
	/* These change whenever the file's bytes change. */
	__u64 bytes;
	__u64 modified_ns; /* since the epoch; 0 if the kernel does not show it */
	/* The process's start, since boot, and how many programs it has run: an exec maps its files
	 * newly. */
	__u64 started_ns;
	__u64 execs;
	/* Of the process's own executable: the inode that the process has executed. On overlayfs
	 * this is the overlay's. */
	__u64 program_inode;
	__u32 program_device;
	__u32 program_generation;
	/* It was opened on a file system that was mounted in a user namespace, as any user can do.
	 * What such an overlay lies on may change while the file is open. */
	__u32 is_mounted_by_user;
	__u32 unused;
	char name[MAPPING_NAME_BYTES]; /* the last part of the file's path */
};
WIRE_SIZE(struct mapping_record, 120 + MAPPING_NAME_BYTES);

/* A thread in a call whose return the kernel reports to a probe. */
struct probed_thread_record {
	__u32 tgid;
	__u32 tid;
};
WIRE_SIZE(struct probed_thread_record, 8);

/* A file that a process has mapped to execute it. */
struct mmap_event {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u32 tgid;
	__u32 unused;
	char name[MAPPING_NAME_BYTES]; /* the last part of its path */
};
WIRE_SIZE(struct mmap_event, 16 + MAPPING_NAME_BYTES);

/* The lock of one process's mappings that was held when this was asked. A process that maps the
 * file several times has several of these. */
struct held_lock {
	__u64 memory; /* the address of its mm_struct: which process it is */
	/* The thread that may change the mappings: if this changes, the lock was free. 0: threads
	 * that only read them, of which one can take the lock before another gives it up. */
	__u64 holder;
	__u32 tgid; /* 0: the kernel does not say */
	__u32 unused;
};
WIRE_SIZE(struct held_lock, 24);

#endif
