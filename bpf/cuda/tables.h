/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The tables of the CUDA probe that its programs share with the exporter. */
#ifndef GPUSNOOP_CUDA_TABLES_H
#define GPUSNOOP_CUDA_TABLES_H

#include "bpf/lib/processes/process.h"

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
	CUDA_LIVE_PLACES,     /* (another table) stream -> the device that it is on */
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
	__u64 python; /* the stack of Python's functions */
	__s32 device;
	__s32 stack;
	__u16 kind;
	__u16 imported; /* a handle from another process */
	__u32 reserved;
};
WIRE_SIZE(struct cuda_live, 64);

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

#endif
