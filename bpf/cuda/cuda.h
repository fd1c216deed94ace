/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The records of the CUDA probe. Its functions are in cuda/functions.h. */
#ifndef GPUSNOOP_CUDA_H
#define GPUSNOOP_CUDA_H

#include "bpf/cuda/tables.h"
#include "bpf/lib/open_call.h"
#include "bpf/lib/processes/process.h"

/* The order is that of the values of the label `kind`. */
enum cuda_memory_kind {
	MEMORY_device,
	MEMORY_async, /* stream-ordered */
	MEMORY_managed,
	MEMORY_pinned_host,
	MEMORY_vmm, /* physical memory with a handle, from cuMemCreate */
	MEMORY_KIND_COUNT,
	MEMORY_vmm_host = MEMORY_KIND_COUNT /* host memory with a handle: pinned_host */
};
#define MEMORY_HAS_HANDLE(kind) ((kind) == MEMORY_vmm || (kind) == MEMORY_vmm_host)
#define MEMORY_IS_HOST(kind)	((kind) == MEMORY_pinned_host || (kind) == MEMORY_vmm_host)

/* The values of cudaMemcpyKind in CUDA's driver_types.h. */
enum cuda_copy_kind {
	COPY_H2H = 0,
	COPY_H2D = 1,
	COPY_D2H = 2,
	COPY_D2D = 3,
	COPY_DEFAULT = 4, /* as the pointers say */
	/* Only of batches. One end is a CUDA array, which is on the device. */
	COPY_TO_ARRAY = 0x100,
	COPY_FROM_ARRAY = 0x101,
};

/* What a node of a graph does. The order of the first is that of the label `operation`. */
enum cuda_node {
	CUDA_NODE_LAUNCH,
	CUDA_NODE_COPY,
	CUDA_NODE_SET,
	CUDA_NODE_ALLOCATE,
	CUDA_NODE_FREE,
	CUDA_NODE_GRAPH,   /* launches a graph: a child, or an executable one */
	CUDA_NODE_NOTHING, /* nothing that is counted */
	CUDA_NODE_UNKNOWN, /* not known before it runs: a condition decides */
};

enum cuda_record_type {
	/* Allocations ring */
	CUDA_RECORD_PROCESS, /* a process made its first CUDA call */
	CUDA_RECORD_EXIT,    /* it ended, or became another program by exec */
	CUDA_RECORD_ALLOCATE,
	CUDA_RECORD_FREE,
	CUDA_RECORD_MAP,      /* virtual addresses now lead to memory with a handle */
	CUDA_RECORD_UNMAP,    /* they no longer do */
	CUDA_RECORD_RESET,    /* everything in a context is gone */
	CUDA_RECORD_KERNEL,   /* a handle now stands for another handle, or for a host function */
	CUDA_RECORD_NAME,     /* a handle now stands for the kernel of that name */
	CUDA_RECORD_CAPTURED, /* a call on a capturing stream: what its graph holds */
	CUDA_RECORD_CHANGE,   /* a capture began or ended; a graph was made, changed, ended */
	CUDA_RECORD_REPAIRED, /* a thread got what it had been refused for lack of memory */
	/* Calls ring */
	CUDA_RECORD_COPY,
	CUDA_RECORD_BATCH, /* several copies of one call */
	CUDA_RECORD_SET,
	CUDA_RECORD_LAUNCH,
	CUDA_RECORD_GRAPH,
	CUDA_RECORD_WAIT,
	CUDA_RECORD_ELAPSED,	 /* the time between two events, as the GPU measured it */
	CUDA_RECORD_FREE_MEMORY, /* what a device has free, as the program was told */
	CUDA_RECORD_UNRETURNED,	 /* a thread ended inside a call */
	/* Either */
	CUDA_RECORD_FAILED, /* a call that returned an error, and did nothing */
	/* Traces ring */
	CUDA_RECORD_TRACE,
};

/* Instead of a device's ordinal. */
#define CUDA_DEVICE_UNCHOSEN (-1) /* the thread was not seen to choose one */
#define CUDA_DEVICE_UNKNOWN  (-2) /* it chose a context whose device is unknown */

/* In `function`: no call made the record. */
#define CUDA_NO_FUNCTION 0x3fff

/* In `function`: the call was made through a runtime that is linked into the executable. */
#define CUDA_STATIC_RUNTIME 0x8000
/* In `function`: probes saw the call make calls of the driver. */
#define CUDA_CALLED_DRIVER  0x4000
#define CUDA_FUNCTION_FLAGS (CUDA_STATIC_RUNTIME | CUDA_CALLED_DRIVER)

/* Times are CLOCK_MONOTONIC nanoseconds. A process is (tgid, since_ns): since_ns is when it made
 * its first CUDA call, so neither a reused pid nor an exec continues the account of another
 * program. */
struct cuda_record {
	__u64 ended_ns;
	__u64 duration_ns;
	__u64 since_ns;
	__u32 tgid;
	__u16 type;	/* enum cuda_record_type */
	__u16 function; /* enum cuda_function, and CUDA_FUNCTION_FLAGS */
	__s32 result;	/* cudaError_t or CUresult */
	__s32 device;	/* ordinal in the process, or CUDA_DEVICE_... */
};
WIRE_SIZE(struct cuda_record, 40);

enum cuda_allocation_flags {
	CUDA_ALLOCATION_KNOWN = 1,    /* a free: the allocation was in the table */
	CUDA_ALLOCATION_REPLACES = 2, /* an allocation: another was in the table at its address */
	CUDA_ALLOCATION_UNTABLED = 4, /* an allocation: the table had no room for it, so that only
				       * the exporter knows of it */
};

/* CUDA_RECORD_ALLOCATE and CUDA_RECORD_FREE. The record of a free describes the allocation, except
 * for the times in its head. */
struct cuda_allocation_record {
	struct cuda_record head;
	__u64 address; /* or the handle, of kind vmm */
	__u64 bytes;
	__u64 born_ns; /* identifies the allocation, together with the address */
	__u64 context; /* 0: the device's primary one */
	__u64 caller;  /* where the allocating call returned to */
	__u64 python;  /* key in the table of Python's stacks, or PYTHON_STACK_... */
	__s32 stack;   /* key in the table of stacks; negative: none */
	__u16 kind;    /* enum cuda_memory_kind */
	__u16 flags;
};
WIRE_SIZE(struct cuda_allocation_record, 96);

/* CUDA_RECORD_MAP and CUDA_RECORD_UNMAP */
struct cuda_mapping_record {
	struct cuda_record head;
	__u64 address;
	__u64 bytes;
	__u32 is_unfinished; /* an unmap: the exporter ends the rest, see CUDA_LIVE_UNMAPS */
	__u32 is_host;	     /* a map: the memory is the host's */
};
WIRE_SIZE(struct cuda_mapping_record, 64);

struct cuda_reset_record { /* head.device: the device */
	struct cuda_record head;
	__u64 context; /* 0: the primary one */
};
WIRE_SIZE(struct cuda_reset_record, 48);

struct cuda_kernel_record {
	struct cuda_record head;
	__u64 handle;
	__u64 stands_for;
};
WIRE_SIZE(struct cuda_kernel_record, 56);

#define CUDA_NAME_BYTES 216 /* longer names are cut */

struct cuda_name_record {
	struct cuda_record head;
	__u64 handle;
	char name[CUDA_NAME_BYTES];
};
WIRE_SIZE(struct cuda_name_record, 48 + CUDA_NAME_BYTES);

struct cuda_process_record {
	struct cuda_record head;
	struct process_identity identity;
	struct process_details details;
	__u64 code_start; /* where the executable's code is mapped */
	__u64 code_end;
	__u64 exe_inode;
	__u64 exe_bytes;
	__u32 exe_device; /* MAJOR << 20 | MINOR */
	__u32 exe_generation;
};
WIRE_SIZE(struct cuda_process_record,
	  40 + sizeof(struct process_identity) + sizeof(struct process_details) + 40);

struct cuda_exit_record {
	struct cuda_record head;
	__u64 lost_allocations; /* as in struct cuda_live_process */
	__u64 cost_ns;		/* the same */
	__u64 run_ns;		/* what its threads have run */
};
WIRE_SIZE(struct cuda_exit_record, 64);

/* CUDA_RECORD_COPY, and with neither source nor kind CUDA_RECORD_SET */
struct cuda_copy_record {
	struct cuda_record head;
	__u64 destination;
	__u64 source;
	__u64 bytes;
	__u64 stream;
	__u32 kind; /* as the caller gave it: any number */
	__u32 is_async;
};
WIRE_SIZE(struct cuda_copy_record, 80);

/* CUDA_RECORD_BATCH. A call with more copies has several records; only the first one has the call's
 * duration. */
#define CUDA_BATCH_WORDS       192
#define CUDA_BATCH_COPIES      (CUDA_BATCH_WORDS / 3)
#define CUDA_BATCH_3D_WORDS    14 /* cudaMemcpy3DBatchOp, which is CUDA_MEMCPY3D_BATCH_OP */
#define CUDA_BATCH_3D_COPIES   (CUDA_BATCH_WORDS / CUDA_BATCH_3D_WORDS)
#define CUDA_MAX_BATCH_RECORDS 256 /* of one call */

struct cuda_batch_record {
	struct cuda_record head;
	__u64 stream;
	__u32 copies;
	__u32 is_3d;
	/* CUDA_BATCH_COPIES destinations, then as many sources, then as many sizes; or
	 * CUDA_BATCH_3D_COPIES structures. */
	__u64 words[CUDA_BATCH_WORDS];
};
WIRE_SIZE(struct cuda_batch_record, 56 + 8 * CUDA_BATCH_WORDS);

struct cuda_launch_record {
	struct cuda_record head;
	__u64 kernel; /* host function or handle */
	__u32 grid[3];
	__u32 block[3];
};
WIRE_SIZE(struct cuda_launch_record, 72);

/* CUDA_RECORD_GRAPH */
struct cuda_graph_record {
	struct cuda_record head;
	__u64 executable;
	__u64 losses; /* as in struct cuda_live_process */
};
WIRE_SIZE(struct cuda_graph_record, 56);

/* Of a launch: the shape. Of a copy or a memset, as in struct cuda_copy_record. */
union cuda_node_detail {
	struct {
		__u32 grid[3];
		__u32 block[3];
	} launch;
	struct {
		__u64 source;
		__u64 bytes;
		__u64 kind;
	} copy;
};

/* CUDA_RECORD_CAPTURED and CUDA_RECORD_CHANGE. `operation` is the call's; `holds`
 * says what the captured call or the node does. */
struct cuda_change_record {
	struct cuda_record head;
	__u64 handle;  /* of the capture, the graph or the executable graph */
	__u64 node;    /* or the other graph: cloned, instantiated, captured into */
	__u64 address; /* kernel; destination; allocation; executable or child graph */
	union cuda_node_detail detail;
	__u16 operation; /* enum cuda_operation */
	__u16 holds;	 /* enum cuda_node: what the node does */
	__u32 losses;	 /* as in struct cuda_live_process */
};
WIRE_SIZE(struct cuda_change_record, 96);

struct cuda_elapsed_record {
	struct cuda_record head;
	__u32 milliseconds; /* the bits of the float that the program got */
	__u32 reserved;
};
WIRE_SIZE(struct cuda_elapsed_record, 48);

/* cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY; CUPTI's errors have other numbers. */
#define CUDA_OUT_OF_MEMORY 2

/* In `kind`: the call is no allocation. */
#define CUDA_NO_MEMORY_KIND 0xffff

struct cuda_failed_record { /* head.device: where the memory or the context was to be */
	struct cuda_record head;
	__u64 bytes;  /* of an allocation: what it asked for */
	__u64 caller; /* the same: as in struct cuda_allocation_record */
	__u64 python;
	__s32 stack;
	__u32 tid;
	__u32 kind; /* enum cuda_memory_kind, or CUDA_NO_MEMORY_KIND */
	__u32 reserved;
};
WIRE_SIZE(struct cuda_failed_record, 80);

/* A thread that was refused memory has since got as much on the same device, or has made the same
 * call there with success. */
struct cuda_repaired_record {
	struct cuda_record head;
	__u64 refused_ns; /* when it was last refused */
	__u32 tid;
	__u32 reserved;
};
WIRE_SIZE(struct cuda_repaired_record, 56);

/* CUDA_RECORD_FREE_MEMORY */
struct cuda_free_memory_record {
	struct cuda_record head;
	__u64 free;
	__u64 total;
};
WIRE_SIZE(struct cuda_free_memory_record, 56);

struct cuda_unreturned_record {
	struct cuda_record head;
	struct unreturned_call unreturned;
};
WIRE_SIZE(struct cuda_unreturned_record, 40 + sizeof(struct unreturned_call));

/* CUDA_RECORD_WAIT; stream ~0: all streams of the device */
struct cuda_wait_record {
	struct cuda_record head;
	__u64 stream;
};
WIRE_SIZE(struct cuda_wait_record, 48);
#define CUDA_ALL_STREAMS (~0ULL)

#define CUDA_STACK_FRAMES 32

/* Tracing, by `gpusnoop_exporter trace`. */
#define CUDA_TRACE_WORDS      16  /* of a kernel's arguments */
#define CUDA_TRACED_FUNCTIONS 512 /* the numbers of the functions are below */

/* The fields that a trace's record has; all others are 0. */
enum cuda_trace_field {
	TRACE_ADDRESS = 1, /* memory.destination: where, or the context or handle */
	TRACE_SOURCE = 2,  /* memory.source: where from, or the handle that is mapped */
	TRACE_BYTES = 4,
	TRACE_KIND = 8, /* of a copy, or enum cuda_memory_kind */
	TRACE_STREAM = 16,
	TRACE_KERNEL = 32,
	TRACE_SHAPE = 64,
	TRACE_SHARED = 128,
	TRACE_ELAPSED = 256,  /* memory.bytes: the bits of a float of milliseconds */
	TRACE_CAPTURED = 512, /* the call was recorded into a graph, and did not run */
	TRACE_COPIES = 1024,  /* memory.bytes: how many copies a batch has */
};

/* CUDA_RECORD_TRACE: any outermost call, when it returns. head.device is the device that the call
 * names, or else the thread's own after the call. */
struct cuda_trace_record {
	struct cuda_copy_record memory;
	__u64 kernel; /* host function or handle */
	__u64 shared_bytes;
	__u64 words[CUDA_TRACE_WORDS]; /* 8 bytes each, smaller arguments too */
	__u32 grid[3];
	__u32 block[3];
	__u32 tid;
	__u16 fields; /* enum cuda_trace_field */
	__u8 word_count;
	__u8 frame_count;
};
WIRE_SIZE(struct cuda_trace_record, 80 + 16 + 8 * CUDA_TRACE_WORDS + 32);

struct cuda_trace_stack_record {
	struct cuda_trace_record trace;
	__u64 frames[CUDA_STACK_FRAMES]; /* return addresses, innermost first */
};
WIRE_SIZE(struct cuda_trace_stack_record, 256 + 8 * CUDA_STACK_FRAMES);

#endif
