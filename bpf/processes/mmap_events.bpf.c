// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Reports each executable file mapping that a process makes. For kernels that give perf's events of
 * mappings only to CAP_SYS_ADMIN. */
#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/processes/mappings.h"

#define VM_EXEC 0x4

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 10); /* 400 records between two reads */
} mmap_events SEC(".maps");

__u64 dropped = 0;

/* The kernel calls this for each mapping of a file, when it is made: perf's own function
 * (perf_event_mmap()) cannot be attached to. */
SEC("fentry/uprobe_mmap")
int BPF_PROG(mmap_made, struct vm_area_struct *vma)
{
	struct mmap_event *event;

	if (!(vma->vm_flags & VM_EXEC) || !vma->vm_file)
		return 0;
	event = bpf_ringbuf_reserve(&mmap_events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&dropped, 1);
		return 0;
	}
	event->at_ns = bpf_ktime_get_ns();
	event->tgid = bpf_get_current_pid_tgid() >> 32;
	event->unused = 0;
	event->name[0] = 0;
	bpf_probe_read_kernel_str(event->name, sizeof(event->name),
				  vma->vm_file->f_path.dentry->d_name.name);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
