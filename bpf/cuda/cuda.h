/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The records and tables of the CUDA probe. Its functions are in cuda/functions.h. */
#ifndef GPUSNOOP_CUDA_H
#define GPUSNOOP_CUDA_H

#include "bpf/lib/open_call.h"
#include "bpf/lib/process.h"

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
	/* Calls ring */
	CUDA_RECORD_COPY,
	CUDA_RECORD_SET,
	CUDA_RECORD_LAUNCH,
	CUDA_RECORD_GRAPH,
	CUDA_RECORD_WAIT,
	CUDA_RECORD_ELAPSED,	/* the time between two events, as the GPU measured it */
	CUDA_RECORD_UNRETURNED, /* a thread ended inside a call */
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
	__s32 stack;   /* key in the table of stacks; negative: none */
	__u16 kind;    /* enum cuda_memory_kind */
	__u16 flags;
};
WIRE_SIZE(struct cuda_allocation_record, 88);

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

struct cuda_failed_record {
	struct cuda_record head;
};
WIRE_SIZE(struct cuda_failed_record, 40);

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

/* All the tables have this kind of key. since_ns is 0 where the process may have made no call
 * yet. */
enum cuda_live_space {
	CUDA_LIVE_MEMORY,   /* address -> allocation */
	CUDA_LIVE_HANDLES,  /* handle -> allocation of kind vmm */
	CUDA_LIVE_MAPPINGS, /* address -> a mapping: `bytes`; `context`: the handle; `caller`: when
			     * the handle was born, as handles are reused; `uses`: 1 when the
			     * mapping has ended; `kind`: that of the handle */
	CUDA_LIVE_CONTEXTS, /* (another table) context -> device */
	CUDA_LIVE_REGISTERED, /* (another table) host function -> where the kernel's name is */
	CUDA_LIVE_UNMAPS,     /* time -> a range that a cuMemUnmap ended and that may still have
			       * entries among the mappings: from `context` to `caller`, of mappings
			       * that were made before `born_ns` */
	CUDA_LIVE_POOLS,      /* (another table) memory pool -> where its memory is */
	CUDA_LIVE_ENDED,      /* (another table) 0 -> the process that ended */
	CUDA_LIVE_LAUNCHED,   /* (another table) driver's handle -> the kernel that the runtime
			       * launches by it */
	/* (another table) To the number of a capture: */
	CUDA_LIVE_STREAMS,	  /* of a stream that captures */
	CUDA_LIVE_THREAD_STREAMS, /* thread id -> of its own default stream */
	CUDA_LIVE_EVENTS,	  /* of an event that was recorded in it */
	CUDA_LIVE_CAPTURES, /* while it lasts, else the others are void: to the stream that it began
			       on */
};

/* The size of that table. */
#define CUDA_MAX_CAPTURING 16384

struct cuda_live_key {
	__u64 address;
	__u64 since_ns;
	__u32 tgid;
	__u32 space; /* enum cuda_live_space */
};
WIRE_SIZE(struct cuda_live_key, 24);

/* The table of live allocations. Only the BPF programs keep it, so it is right even if the exporter
 * stops or records are lost. An entry leaves when the free begins and not when it ends: in between,
 * another thread can get the same address. */
/* Of a handle: its references, and in the upper half the mappings. It is free when both are 0. */
#define CUDA_ONE_REFERENCE 1ULL
#define CUDA_ONE_MAPPING   (1ULL << 32)

struct cuda_live {
	__u64 bytes;
	__u64 born_ns;
	__u64 context;
	__u64 caller;
	__u64 uses;
	__s32 device;
	__s32 stack;
	__u16 kind;
	__u16 imported; /* a handle from another process */
	__u32 reserved;
};
WIRE_SIZE(struct cuda_live, 56);

/* A value of two tables: the CUDA processes, by tgid, and the ended processes whose memory records
 * were lost. The allocations of these stay in the table of live allocations until the exporter has
 * read them. */
#define CUDA_MAX_DEVICES 16

struct cuda_live_process {
	__u64 since_ns;
	__u64 start_boottime_ns;
	__u64 cost_ns;		/* as in struct process_entry */
	__u64 lost_allocations; /* records about its memory that had no room in the ring */
	__u64 untabled;		/* allocations that had no room in the table */
	__u64 ended_ns;		/* in the table of ended ones */
	struct call_budget budget;
	__u64 reset_ns[CUDA_MAX_DEVICES]; /* allocations from before are gone */
	__s64 subscribers;		  /* of CUPTI, that were seen to subscribe */
	__u64 activities;   /* a bit for each kind of activity that CUPTI records; the last one: all
			     * kinds from there on */
	__u64 captures;	    /* that began and did not end */
	__u64 graph_losses; /* records about its graphs that were lost: what they hold is unknown */
	__u64 epoch;	    /* how often it has unloaded kernels */
	__u64 counted;	    /* its entries in the table of counted launches */
	__u64 even_launches; /* that did, of each thread's first ones */
	__u64 odd_launches; /* by the runtime, that did not make exactly one launch of the driver */
	__u64 odd_driver_launches; /* by the driver, that made another one */
	__u64 launches;		   /* that were seen or counted */
	__u64 other_calls;	   /* that ended while any process's launches were counted */
};
WIRE_SIZE(struct cuda_live_process, 64 + 8 * CUDA_MAX_DEVICES + 88);

/* Of a process whose launches of kernels were not all seen or counted, until it ends. */
struct cuda_sight {
	__u64 seen_since_ns; /* all are from then on; 0: it has turns now */
};
WIRE_SIZE(struct cuda_sight, 8);

/* Of a process: the last time that the ends of launches were detached from. Of those that began
 * before, the end may be unseen. */
struct cuda_detached {
	__u64 runtime_ns;
	__u64 driver_ns;
};
WIRE_SIZE(struct cuda_detached, 16);

/* Links to launches are exchanged. Those of the driver: for links of this kind; 0: nothing is
 * exchanged. */
#define CUDA_EXCHANGE_WAY 7
#define CUDA_TO_ENDS	  1
#define CUDA_TO_COUNTING  2
#define CUDA_TO_OWN	  3 /* counting, in one process each */
#define CUDA_TO_NONE	  4 /* links of the runtime are taken off */

/* Where a process has the code of a runtime whose launches have no probe: what calls the driver
 * from there may be inside of one. */
struct cuda_runtime_code {
	__u64 start;
	__u64 end;
};
WIRE_SIZE(struct cuda_runtime_code, 16);

/* The table of launches that are counted where they enter the driver, without a record each. Only
 * the BPF programs add to it, and only the exporter removes entries: of processes that have ended.
 */
struct cuda_launch_key {
	__u64 since_ns;
	__u64 kernel; /* the driver's handle, or what the runtime was given; 0: too many for entries
		       * of their own */
	__u32 tgid;
	__s32 device; /* as in a record's head */
	__u32 grid[3];
	__u32 block[3];
	__u64 epoch; /* the process's */
};
WIRE_SIZE(struct cuda_launch_key, 56);

struct cuda_launch_count {
	__u64 launches;
	__u64 first_ns; /* when the first of them was counted */
};
WIRE_SIZE(struct cuda_launch_count, 16);

#define CUDA_MAX_COUNTED	    32768 /* entries, */
#define CUDA_MAX_COUNTED_OF_PROCESS 2048  /* and of one process */

/* The captures of all processes. While none lasts, no call looks for its stream. */
struct cuda_captures {
	__u64 lasting;
	__u64 last_number;
};
WIRE_SIZE(struct cuda_captures, 16);

/* Devices of a process from this ordinal on are unknown. */
#define CUDA_KNOWN_DEVICES 64

/* The table of driver contexts: the device of each, and when all its memory was freed. For devices
 * from CUDA_MAX_DEVICES on it also has the primary contexts, by the number of the device. */
struct cuda_context {
	__u64 destroyed_ns; /* of the last one with this handle; 0: none */
	__s32 device;
	__u32 is_primary;
};
WIRE_SIZE(struct cuda_context, 16);

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
