// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Interrupts that run in the place of a followed process's thread, on its CPU. */
#define PROBE irq

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/host_irq.h"
#include "bpf/lib/counted_times.bpf.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"

/* Entries are made with interrupts off, so none may be allocated then. */
HASH_MAP(irq_counts, 16384, struct irq_key, struct counted_times);

/* A CPU can be in one of each kind: handlers run with interrupts off. A hard one can interrupt a
 * soft one. */
struct on_cpu {
	__u64 began_ns[IRQ_KINDS]; /* 0: in none of a followed process */
	__u64 inside_ns;	   /* of hard ones inside the soft one */
};

PERCPU_MAP(irq_cpus, 1, struct on_cpu);

static __always_inline struct on_cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&irq_cpus, &zero);
}

static __always_inline void begin(enum irq_kind kind)
{
	struct on_cpu *cpu;

	if (!followed_process(bpf_get_current_task_btf()))
		return;
	cpu = this_cpu();
	if (!cpu)
		return;
	ACCOUNT(entered, 1);
	if (kind == IRQ_SOFT)
		cpu->inside_ns = 0;
	cpu->began_ns[kind] = bpf_ktime_get_ns();
}

static __always_inline void count(struct task_struct *task, const struct followed *process,
				  enum irq_kind kind, __u32 source, __u64 nanoseconds)
{
	struct irq_key key = {.since_ns = process->since_ns,
			      .tgid = task->tgid,
			      .kind = kind,
			      .role = role_of(process),
			      .source = source};

	count_time(&irq_counts, &key, nanoseconds);
}

/* The thread is the same as at the beginning: nothing else gets the CPU in between. */
static __always_inline void end(enum irq_kind kind, __u32 source)
{
	struct on_cpu *cpu = this_cpu();
	struct task_struct *task;
	struct followed *process;
	__u64 took_ns;

	if (!cpu || !cpu->began_ns[kind])
		return;
	took_ns = bpf_ktime_get_ns() - cpu->began_ns[kind];
	cpu->began_ns[kind] = 0;
	if (kind == IRQ_SOFT)
		took_ns -= cpu->inside_ns;
	else if (cpu->began_ns[IRQ_SOFT])
		cpu->inside_ns += took_ns;
	task = bpf_get_current_task_btf();
	process = followed_process(task);
	if (process)
		count(task, process, kind, source, took_ns);
	else
		ACCOUNT(stale, 1); /* it is not followed any more */
}

/* Such programs are not preempted, as interrupts are not: no guard. */
SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_hard_in, int number)
{
	begin(IRQ_HARD);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_hard_out, int number)
{
	end(IRQ_HARD, number);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(irq_soft_in, unsigned int vector)
{
	begin(IRQ_SOFT);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(irq_soft_out, unsigned int vector)
{
	end(IRQ_SOFT, vector);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
