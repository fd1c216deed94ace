/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the CUDA probe keeps of each thread, in its task storage. */
#ifndef GPUSNOOP_CUDA_THREADS_BPF_H
#define GPUSNOOP_CUDA_THREADS_BPF_H

#include "bpf/cuda/functions.h"
#include "bpf/host_time/host_time.h"

/* Only a thread's outermost call counts (the runtime calls itself, and the driver), so only that
 * one is kept. */
#define CALL_DEPTH		     1
#define CALL_HAS_RETURN_PROBE(call)  (!((call)->function & CUDA_EXITS))
#define CALL_AFTER_ENTRY(regs, skip) continue_entry(regs, skip)
#define CALL_AFTER_RETURN(regs)	     continue_failed(regs, &cuda_failed)
#define CALL_AFTER_EXIT(regs)	     continue_failed(regs, &cuda_fail_exit)
#include "bpf/lib/call.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/python/stacks.h"

/* The device that a thread has chosen. */
struct choice {
	__s32 ordinal_plus_1; /* 0: none yet; below: not known */
	__u32 reserved;
	__u64 context; /* 0: the device's primary one */
};

#define PUSHED_CONTEXTS 4

enum released {
	RELEASED_NOTHING,
	RELEASED_REF,	/* one of several references or mappings of a handle */
	RELEASED_ENTRY, /* the entry itself: it is in thread->live */
};

/* Of a launching thread (bpf/host_time/host_time.h): its time inside of calls. */
struct in_calls {
	__u64 since_ns;		    /* its first submission; 0: it has made none */
	__u64 ns[HOST_PHASE_SLOTS]; /* by enum host_phase */
};

/* The driver's handles by which the runtime has launched its kernels. */
#define LAUNCHED_KERNELS 32

struct launched_kernel {
	__u64 handle;
	__u64 kernel;
};

struct thread {
	struct call_stack open;
	struct call_stack profiler; /* the open call of CUPTI, which may be inside `open` */
	__u64 since_ns;		    /* the process's; 0: not known yet */
	__u64 lease;		    /* calls left */
	struct in_calls in_calls;
	__u64 cost_ns;		  /* that its process does not have yet */
	struct call_stack getter; /* the open call that gets a kernel's handle, inside of `open` */
	__u64 counted_ns;	  /* when its last launch was counted at its entry */
	__u64 counted_in_calls;	  /* its time in calls then, with that of the launch before it */
	__u64 seen_by_new;	  /* the exchange in which the new link's program saw its launch */
	struct launched_kernel launched[LAUNCHED_KERNELS];
	struct cuda_launch_key launch; /* of the launch that is counted; its epoch stays */
	__u64 unloads;		       /* of all processes, when the epoch was read */
	__u64 follows; /* the work of another program: at the open call's entry CUDA_PYTHON, at its
			* end CUDA_FAILED; or 0 */
	__u32 inner_launches;	/* of the driver, inside of the open call */
	__u32 checked_launches; /* that made one launch of the driver; not more than those */
	__u32 kept_launches;	/* that its process does not have yet */
	__u32 gap_is_known;	/* the end of its last submission or wait was seen */
	__u64 published_ns;	/* its last counted launch, for other threads */
	__u64 launch_ns;	/* what its last launches took that were seen to end */
	struct choice chosen;
	struct choice pushed[PUSHED_CONTEXTS];
	__u64 pushes;
	__u64 caller; /* of the open allocation */
	__u64 python;
	struct python_key python_key;
	__s32 stack;
	__u32 released; /* by the open free */
	__u64 capture;	/* that the open call is recorded in; 0: it runs */
	/* Its last call that failed for lack of memory, until it gets what it asked for. */
	__u64 refused_ns; /* 0: there is none */
	__u64 refused_bytes;
	__s32 refused_device;
	__u32 refused_function; /* CUDA_NO_FUNCTION: an allocation */
	/* Scratch: too much for a uprobe program's stack. */
	__u32 tgid;
	__s32 result;
	__u64 ended_ns;
	__u64 cookie; /* of the call that begins */
	__u64 nested; /* all bits of the cookies of the calls inside the open one */
	__u64 words[25];
	__u64 where; /* the parameters of a node are, */
	__u64 given; /* and how they are given: enum cuda_node_parameters */
	struct cuda_live_key key;
	struct cuda_live live;
	struct cuda_copy_record copy;
	struct cuda_live_process fresh;
};

THREAD_MAP(cuda_threads, struct thread);

#endif
