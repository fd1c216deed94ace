// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The least that a probe does which sends an exact record of each outermost call: it finds the
 * thread's state and reads the clock at both ends, and fills a record at the return; of an
 * allocation also the call stack, and the address that it returned. Nothing is guarded, counted,
 * budgeted or attributed to a process, and each return is taken for that of the open call. Also the
 * least that counts launches where they enter the driver. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/run_context.bpf.h"

#define LEAST_STACK_FRAMES 32

/* As long as the records of the probe that this is compared with; 48 at least. */
const volatile __u64 record_bytes = 80;

__u64 lost = 0;

struct least_thread {
    __u64 started_ns; /* 0: no call is open */
    __u64 argument[4];
    __s64 stack;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct least_thread);
} least_threads SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 8 << 20);
} least_events SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_STACK_TRACE);
    __uint(max_entries, 8192);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, LEAST_STACK_FRAMES * sizeof(__u64));
} least_stacks SEC(".maps");

static __always_inline int enter(struct pt_regs *regs, bool is_allocation) {
    struct least_thread *thread = bpf_task_storage_get(&least_threads, bpf_get_current_task_btf(),
                                                       NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

    if (!thread || thread->started_ns)
        return 1; /* a part of the open call: its return is of no interest */
    thread->argument[0] = PT_REGS_PARM1(regs);
    thread->argument[1] = PT_REGS_PARM2(regs);
    thread->argument[2] = PT_REGS_PARM3(regs);
    thread->argument[3] = PT_REGS_PARM4(regs);
    if (is_allocation)
        thread->stack = bpf_get_stackid(regs, &least_stacks, BPF_F_USER_STACK);
    thread->started_ns = bpf_ktime_get_ns();
    return 0;
}

static __always_inline int leave(struct pt_regs *regs, bool is_allocation) {
    __u64 now_ns = bpf_ktime_get_ns();
    struct least_thread *thread =
        bpf_task_storage_get(&least_threads, bpf_get_current_task_btf(), NULL, 0);
    __u64 address = 0;
    __u64 *record;

    if (!thread)
        return 0;
    if (is_allocation)
        bpf_probe_read_user(&address, sizeof(address), (const void *)thread->argument[0]);
    record = bpf_ringbuf_reserve(&least_events, record_bytes, 0);
    if (!record) {
        __sync_fetch_and_add(&lost, 1);
    } else {
        record[0] = now_ns;
        record[1] = now_ns - thread->started_ns;
        record[2] = PT_REGS_RC(regs);
        record[3] = thread->argument[0];
        record[4] = thread->argument[1];
        record[5] = thread->argument[2];
        if (record_bytes >= 80) {
            record[6] = thread->argument[3];
            record[7] = thread->stack;
            record[8] = address;
            record[9] = 0;
        }
        bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
    }
    thread->started_ns = 0;
    return 0;
}

SEC("uprobe.multi")
int least_session(struct pt_regs *regs) {
    return session_is_return(bpf_get_current_task_btf(), regs) ? leave(regs, false)
                                                               : enter(regs, false);
}

/* For allocations. */
SEC("uprobe.multi")
int least_stack(struct pt_regs *regs) {
    return session_is_return(bpf_get_current_task_btf(), regs) ? leave(regs, true)
                                                               : enter(regs, true);
}

/* At the entry of the driver's launches: their shapes lie on the stack in part. */
__u64 counted;

SEC("uprobe.multi")
int least_count(struct pt_regs *regs) {
    __u64 word = 0;

    bpf_probe_read_user(&word, sizeof(word), (const void *)(PT_REGS_SP(regs) + 8));
    __sync_fetch_and_add(&counted, word ? 1 : 2);
    return 0;
}

/* The same for each process, kernel and shape, which takes a key of its own place and a table. */
struct least_shape {
    __u64 kernel;
    __u32 grid[3];
    __u32 block[3];
    __u64 others[2]; /* of the stack: the shared memory and the stream */
    __u64 tgid;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct least_shape);
} least_keys SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 32768);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct least_shape);
    __type(value, __u64);
} least_shapes SEC(".maps");

static const __u64 nothing;

static __always_inline __u64 *count_of(const struct least_shape *shape) {
    __u64 *count = bpf_map_lookup_elem(&least_shapes, shape);

    if (count)
        return count;
    bpf_map_update_elem(&least_shapes, shape, &nothing, BPF_NOEXIST);
    return bpf_map_lookup_elem(&least_shapes, shape);
}

SEC("uprobe.multi")
int least_by_shape(struct pt_regs *regs) {
    struct least_shape *shape = bpf_task_storage_get(&least_keys, bpf_get_current_task_btf(), NULL,
                                                     BPF_LOCAL_STORAGE_GET_F_CREATE);
    __u64 *count;

    if (!shape)
        return 0;
    shape->kernel = PT_REGS_PARM1(regs);
    shape->grid[0] = PT_REGS_PARM2(regs);
    shape->grid[1] = PT_REGS_PARM3(regs);
    shape->grid[2] = PT_REGS_PARM4(regs);
    shape->block[0] = PT_REGS_PARM5(regs);
    /* The third one, and what follows it there, is on the stack. */
    bpf_probe_read_user(shape->others, sizeof(shape->others), (const void *)(PT_REGS_SP(regs) + 8));
    shape->block[1] = shape->others[0];
    if (!shape->tgid)
        shape->tgid = bpf_get_current_pid_tgid() >> 32;
    count = count_of(shape);
    if (!count)
        return 0;
    __sync_fetch_and_add(count, 1);
    if (!counted)
        counted = 1;
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
