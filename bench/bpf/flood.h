/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The interface between bench/consumer and its programs that write records. */
#ifndef GPUSNOOP_FLOOD_H
#define GPUSNOOP_FLOOD_H

#include "bpf/cuda/cuda.h"

#define FLOOD_PROCESSES 128
#define FLOOD_BATCH 256  /* events a run of the program */
#define FLOOD_CYCLE 64   /* events of a process, after which their kinds repeat */
#define FLOOD_KERNELS 64 /* of a process */
#define FLOOD_SHAPES 4   /* shapes of each kernel's launches */
#define FLOOD_KERNEL(number) (0x55d4c0de0000ULL + (number) * 48)
#define FLOOD_ALLOCATIONS 256 /* addresses of a process */
#define FLOOD_LIVE 128        /* of these, allocated after its first events */
#define FLOOD_STREAMS 4

enum flood_kind {
    FLOOD_LAUNCH,
    FLOOD_ASYNC_COPY,
    FLOOD_COPY,
    FLOOD_WAIT,
    FLOOD_ALLOCATE,
    FLOOD_FREE,
    FLOOD_KINDS
};

struct flood_process {
    __u64 since_ns;
    __u32 tgid;
    __u32 reserved;
};
WIRE_SIZE(struct flood_process, 16);

/* The program's context. Events are numbered from 0 on, in turns of the processes. */
struct flood_request {
    __u64 first;
    __u32 count;     /* FLOOD_BATCH at most */
    __u32 processes; /* FLOOD_PROCESSES at most */
    __u64 written;   /* output: records written */
    __u64 launches;  /* output: launches among them */
    __u64 lost;      /* output: records without room in the ring */
};
WIRE_SIZE(struct flood_request, 40);

#endif
