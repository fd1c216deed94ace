// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Reads the device programs of a process's cgroup and of the cgroups above it: the kernel keeps
 * them in one list, all of which must agree to an open(). Unlike BPF_PROG_QUERY this needs neither
 * CAP_SYS_ADMIN nor a file system of cgroups. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/device_programs.h"
#include "bpf/lib/maps.bpf.h"

/* The kernel types that only this file reads. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_prog {
	enum bpf_prog_type type;
	__u32 len;
	struct bpf_insn insnsi[];
};

struct bpf_prog_array_item {
	struct bpf_prog *prog; /* null after the last one */
};

struct bpf_prog_array {
	struct bpf_prog_array_item items[1];
};

struct cgroup_bpf {
	struct bpf_prog_array *effective[1]; /* by enum cgroup_bpf_attach_type */
};

struct cgroup___bpf {
	struct cgroup_bpf bpf;
};

#pragma clang attribute pop

enum cgroup_bpf_attach_type {
	CGROUP_DEVICE = 4,
};

volatile int only_tgid = 0;

struct device_scratch {
	__u64 word;
	char *item; /* struct bpf_prog_array_item */
	struct bpf_prog *program;
	__u64 instructions[DEVICE_PROGRAM_MOST_INSTRUCTIONS];
};

PERCPU_MAP(device_scratch, 1, struct device_scratch);

static __always_inline void send_word(struct seq_file *seq, struct device_scratch *scratch,
				      __u64 word)
{
	scratch->word = word;
	bpf_seq_write(seq, &scratch->word, sizeof(scratch->word));
}

static __always_inline void send_program(struct seq_file *seq, struct device_scratch *scratch)
{
	/* The compiler would relocate the scratch's field, too. */
	struct bpf_prog *const program = scratch->program;
	__u32 length = BPF_CORE_READ(program, len);

	barrier_var(length);
	if (length == 0 || length > DEVICE_PROGRAM_MOST_INSTRUCTIONS ||
	    bpf_probe_read_kernel(scratch->instructions, length * DEVICE_PROGRAM_WORD_BYTES,
				  __builtin_preserve_access_index(&program->insnsi))) {
		send_word(seq, scratch, DEVICE_PROGRAM_UNREADABLE);
		return;
	}
	send_word(seq, scratch, length);
	bpf_seq_write(seq, scratch->instructions, length * DEVICE_PROGRAM_WORD_BYTES);
}

/* Points the scratch's item to the first of the cgroup's programs. */
static __always_inline bool find_programs(struct task_struct *task, struct device_scratch *scratch)
{
	const char *const cgroup = (char *)task->cgroups->dfl_cgrp;

	if (bpf_probe_read_kernel(
		&scratch->item, sizeof(scratch->item),
		cgroup + bpf_core_field_offset(struct cgroup___bpf, bpf.effective) +
		    bpf_core_enum_value(enum cgroup_bpf_attach_type, CGROUP_DEVICE) *
			sizeof(void *)) ||
	    !scratch->item)
		return false;
	scratch->item += bpf_core_field_offset(struct bpf_prog_array, items);
	return true;
}

SEC("iter/task")
int device_programs(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct seq_file *seq = context->meta->seq;
	struct device_scratch *scratch;
	__u32 zero = 0;

	if (!task || task->tgid != only_tgid || task->pid != only_tgid)
		return 0;
	scratch = bpf_map_lookup_elem(&device_scratch, &zero);
	if (!scratch)
		return 0;
	send_word(seq, scratch, DEVICE_PROGRAMS_BEGIN);
	if (!bpf_core_field_exists(struct cgroup___bpf, bpf) ||
	    !bpf_core_enum_value_exists(enum cgroup_bpf_attach_type, CGROUP_DEVICE))
		return 0; /* a kernel without CONFIG_CGROUP_BPF */
	if (!find_programs(task, scratch)) {
		send_word(seq, scratch, DEVICE_PROGRAM_UNREADABLE);
		return 0;
	}
	for (int i = 0; i <= DEVICE_PROGRAMS_MOST; i++) {
		barrier_var(scratch); /* else each field's address is kept on the stack */
		if (bpf_probe_read_kernel(&scratch->program, sizeof(scratch->program),
					  scratch->item)) {
			send_word(seq, scratch, DEVICE_PROGRAM_UNREADABLE);
			return 0;
		}
		if (!scratch->program)
			return 0;
		if (i == DEVICE_PROGRAMS_MOST)
			send_word(seq, scratch, DEVICE_PROGRAM_UNREADABLE);
		else
			send_program(seq, scratch);
		scratch->item += bpf_core_type_size(struct bpf_prog_array_item);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
