/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the `functions` probe keeps of each thread, in its task storage. */
#ifndef GPUSNOOP_FUNC_THREADS_BPF_H
#define GPUSNOOP_FUNC_THREADS_BPF_H

#include "bpf/functions/functions.h"

/* As many as the return probes that the kernel keeps for one thread (MAX_URETPROBE_DEPTH). */
#define CALL_DEPTH		    64
#define CALL_SLOTS		    8
#define CALL_HAS_RETURN_PROBE(call) (!((call)->function & FUNC_EXITS))
#include "bpf/lib/call.bpf.h"
#include "bpf/lib/maps.bpf.h"

#define FUNC_UNIQUE_ID_BYTES 128 /* NCCL_UNIQUE_ID_BYTES */
#define FUNC_AWAITED	     16

struct thread {
	struct call_stack open;
	__u64 since_ns; /* the process's; 0: not known yet */
	__u64 lease;	/* calls left */
	__u64 cost_ns;	/* that its process does not have yet */
	__u64 cookie;	/* the attach cookie, at an entry */
	__u64 ended_ns; /* of the call that ends now */
	__u32 tgid;
	__u32 tid;
	__u32 function; /* scratch: of the call that ends now */
	/* Scratch of the same call: registers are few, and so is stack. Of its record, and as in
	 * struct func_options. */
	__u32 type;
	__u32 flags;
	__u32 position;
	struct func_process fresh; /* scratch */
	/* Where NCCL will write handles of communicators; 0: free. */
	__u64 awaited[FUNC_AWAITED];
	__u32 awaited_count;
	__u32 awaited_last;
	/* Scratch, too. */
	__u64 word;
	__u64 pointer;
	__u64 bytes;
	__u8 unique_id[FUNC_UNIQUE_ID_BYTES];
};

THREAD_MAP(func_threads, struct thread);

#endif
