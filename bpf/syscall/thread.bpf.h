/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* One entry for each thread of a target that is in a system call. */
#ifndef GPUSNOOP_SYSCALL_THREAD_BPF_H
#define GPUSNOOP_SYSCALL_THREAD_BPF_H

#include "bpf/lib/traced.bpf.h"
#include "bpf/syscall/syscall.h"

/* No call of a target is in between. */
#define IDLE	0
#define OPEN	1
#define IGNORED 2 /* one that is not wanted */
#define EXECED	3 /* execve() has succeeded: the call that returns now is another program's */

struct thread {
	struct traced_thread traced;
	__u64 started_ns;
	__u32 state;
	struct syscall_key key;
	struct syscall_error_key error;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} syscall_threads SEC(".maps");

#endif
