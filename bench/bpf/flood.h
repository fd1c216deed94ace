/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What bench/consumer asks of the programs that write records for it. */
#ifndef GPUSNOOP_FLOOD_H
#define GPUSNOOP_FLOOD_H

#include "bpf/cuda/cuda.h"

#define FLOOD_PROCESSES 128
#define FLOOD_BATCH 256  /* events a run of the program */
#define FLOOD_CYCLE 64   /* events of a process, after which their kinds repeat */
#define FLOOD_KERNELS 64 /* of a process, */
#define FLOOD_SHAPES 4   /* each launched in so many shapes */
#define FLOOD_KERNEL(number) (0x55d4c0de0000ULL + (number) * 48)
#define FLOOD_ALLOCATIONS 256 /* addresses of a process */
#define FLOOD_LIVE 128        /* of them allocated, once it has begun */
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
    __u64 written;   /* answers: records, */
    __u64 launches;  /* those of them that are launches, */
    __u64 lost;      /* and what had no room */
};
WIRE_SIZE(struct flood_request, 40);

#endif
