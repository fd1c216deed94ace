// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* For bench/consumer: records as bpf/cuda/cuda.bpf.c would send them for calls, into the same rings
 * and the same account, but without the calls, which cost ten times as much as their records. */
#define PROBE flood

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>

#include "bench/bpf/flood.h"
#include "bpf/lib/emit.bpf.h"

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4 << 20);
} flood_mem SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 8 << 20);
} flood_events SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, FLOOD_PROCESSES);
    __type(key, __u32);
    __type(value, struct flood_process);
} flood_writers SEC(".maps");

/* When the memory at each address was allocated; 0: it is not allocated. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, FLOOD_PROCESSES *FLOOD_ALLOCATIONS);
    __type(key, __u32);
    __type(value, __u64);
} flood_births SEC(".maps");

/* The kinds of a process's events, which repeat after FLOOD_CYCLE events: two are allocations, at
 * 16 and 48, and two are frees. */
const volatile __u8 kinds[FLOOD_CYCLE] = {};
/* Their numbers in bpf/cuda/functions.h. */
const volatile __u16 functions[FLOOD_KINDS] = {};

/* Written by user space, and sent as they are. */
struct cuda_process_record process = {};
struct cuda_name_record name = {};

#define FLOOD_BYTES 4096ULL
#define COPIED_BYTES (1ULL << 20)
#define FLOOD_ADDRESS 0x7f0000000000ULL
#define ONE_ALLOCATION (1ULL << 21)
#define CALL_NS 4000ULL

static __always_inline void fill(struct cuda_record *head, const struct flood_process *who,
                                 enum cuda_record_type type, enum flood_kind kind) {
    head->ended_ns = bpf_ktime_get_ns();
    /* 4 to 32 us */
    head->duration_ns = CALL_NS + ((head->ended_ns & 1023) << (head->ended_ns >> 10 & 3)) * 4;
    head->since_ns = who->since_ns;
    head->tgid = who->tgid;
    head->type = type;
    head->function = functions[kind];
    head->result = 0;
    head->device = 0;
}

/* 0, or -1 where there is no room. */
static __always_inline int write_launch(const struct flood_process *who, __u64 number) {
    struct cuda_launch_record *record = bpf_ringbuf_reserve(&flood_events, sizeof(*record), 0);
    /* In no order that a cache or a branch predictor could learn. */
    __u64 mixed = number * 0x9e3779b97f4a7c15ULL >> 40;

    if (!record)
        return -1;
    fill(&record->head, who, CUDA_RECORD_LAUNCH, FLOOD_LAUNCH);
    record->kernel = FLOOD_KERNEL(mixed % FLOOD_KERNELS);
    record->grid[0] = 1 + (mixed >> 8) % FLOOD_SHAPES;
    record->grid[1] = record->grid[2] = 1;
    record->block[0] = 256;
    record->block[1] = record->block[2] = 1;
    SUBMIT(record);
    return 0;
}

static __always_inline int write_copy(const struct flood_process *who, __u64 number,
                                      enum flood_kind kind) {
    struct cuda_copy_record *record = bpf_ringbuf_reserve(&flood_events, sizeof(*record), 0);

    if (!record)
        return -1;
    fill(&record->head, who, CUDA_RECORD_COPY, kind);
    record->destination = FLOOD_ADDRESS;
    record->source = number << 12;
    record->bytes = COPIED_BYTES;
    record->kind = number % 3 ? COPY_H2D : COPY_D2H;
    record->is_async = kind == FLOOD_ASYNC_COPY;
    record->stream = record->is_async ? 8 + number / 8 % FLOOD_STREAMS : 0;
    SUBMIT(record);
    return 0;
}

static __always_inline int write_wait(const struct flood_process *who) {
    struct cuda_wait_record *record = bpf_ringbuf_reserve(&flood_events, sizeof(*record), 0);

    if (!record)
        return -1;
    fill(&record->head, who, CUDA_RECORD_WAIT, FLOOD_WAIT);
    record->stream = CUDA_ALL_STREAMS;
    SUBMIT(record);
    return 0;
}

static __always_inline int write_memory(const struct flood_process *who, __u32 place,
                                        enum flood_kind kind, __u64 *born_ns) {
    struct cuda_allocation_record *record = bpf_ringbuf_reserve(&flood_mem, sizeof(*record), 0);

    if (!record)
        return -1;
    fill(&record->head, who, kind == FLOOD_FREE ? CUDA_RECORD_FREE : CUDA_RECORD_ALLOCATE, kind);
    record->address = FLOOD_ADDRESS + place * ONE_ALLOCATION;
    record->bytes = FLOOD_BYTES;
    if (kind == FLOOD_ALLOCATE)
        *born_ns = record->head.ended_ns;
    record->born_ns = *born_ns;
    record->context = 0;
    record->caller = place % 16;
    record->stack = -1;
    record->kind = MEMORY_device;
    record->flags = kind == FLOOD_FREE ? CUDA_ALLOCATION_KNOWN : 0;
    if (kind == FLOOD_FREE)
        *born_ns = 0;
    SUBMIT(record);
    return 0;
}

static __always_inline int write_event(struct flood_request *request, __u64 event) {
    __u32 writer = event % request->processes;
    __u64 number = event / request->processes;
    __u8 kind = kinds[number % FLOOD_CYCLE];
    const struct flood_process *who;
    __u64 *born_ns;
    __u32 place;

    who = bpf_map_lookup_elem(&flood_writers, &writer);
    if (!who)
        return -1;
    if (kind == FLOOD_ALLOCATE || kind == FLOOD_FREE) {
        place =
            number / (FLOOD_CYCLE / 2) + (kind == FLOOD_FREE ? FLOOD_ALLOCATIONS - FLOOD_LIVE : 0);
        place %= FLOOD_ALLOCATIONS;
        writer = writer * FLOOD_ALLOCATIONS + place;
        born_ns = bpf_map_lookup_elem(&flood_births, &writer);
        if (!born_ns)
            return -1;
        if ((kind == FLOOD_FREE) == (*born_ns != 0))
            return write_memory(who, place, kind, born_ns);
        kind = FLOOD_LAUNCH; /* nothing to free there yet */
    }
    switch (kind) {
        case FLOOD_ASYNC_COPY:
        case FLOOD_COPY:
            return write_copy(who, number, kind);
        case FLOOD_WAIT:
            return write_wait(who);
    }
    if (write_launch(who, number))
        return -1;
    request->launches++;
    return 0;
}

SEC("syscall")
int flood_write(struct flood_request *request) {
    __u32 i;

    if (!request->processes)
        return 1;
    for (i = 0; i < FLOOD_BATCH && i < request->count; i++) {
        ACCOUNT(entered, 1);
        if (write_event(request, request->first + i)) {
            request->lost++;
            ACCOUNT(lost[LOST_ring_full], 1);
        } else {
            request->written++;
            ACCOUNT(events, 1);
        }
    }
    return 0;
}

SEC("syscall")
int flood_process(void *nothing) {
    return bpf_ringbuf_output(&flood_mem, &process, sizeof(process), BPF_RB_NO_WAKEUP) != 0;
}

SEC("syscall")
int flood_name(void *nothing) {
    return bpf_ringbuf_output(&flood_mem, &name, sizeof(name), BPF_RB_NO_WAKEUP) != 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
