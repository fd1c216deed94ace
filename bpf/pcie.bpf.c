// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Accesses to the configuration space of PCI devices: one record per access, sent when it ends.
 * Drivers go through pci_bus_*_config_*(bus, devfn, offset, value), user space through
 * pci_user_*_config_*(device, offset, value), which asks the bus by itself (drivers/pci/access.c).
 */
#define PROBE pcie

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/kcall.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/pci.bpf.h"
#include "bpf/lib/processes/process_details.bpf.h"
#include "bpf/pcie.h"

/* Count all devices, also those not in the table. */
const volatile bool every_device = false;

struct thread {
	struct kcall_stack open;
	struct described described;
	__u64 device; /* scratch */
};

RING_MAP(pcie_events, 1 << 20);

/* The devices that are wanted. The exporter finds them by their class. */
HASH_MAP(pcie_devices, PCIE_MAX_DEVICES, __u64, __u32);

THREAD_MAP(pcie_threads, struct thread);

static __always_inline __u64 device_accessed(struct pt_regs *regs, __u64 access)
{
	const struct pci_dev *device = (const void *)PT_REGS_PARM1(regs);
	const struct pci_bus *bus = (const void *)PT_REGS_PARM1(regs);

	if (!(access & PCIE_USER))
		return device_of(bus, PT_REGS_PARM2(regs));
	bus = BPF_CORE_READ(device, bus);
	return device_of(bus, BPF_CORE_READ(device, devfn));
}

static __always_inline __u32 value_of(const struct kcall *call)
{
	bool is_user = call->function & PCIE_USER;
	__u64 argument = is_user ? call->argument[2] : call->argument[3];
	__u32 size = PCIE_SIZE(call->function);
	__u32 value = 0;

	if (call->function & PCIE_WRITES)
		return size == 4 ? argument : argument & ((1U << (8 * size)) - 1);
	if (size == 1)
		bpf_probe_read_kernel(&value, 1, (const void *)argument);
	else if (size == 2)
		bpf_probe_read_kernel(&value, 2, (const void *)argument);
	else
		bpf_probe_read_kernel(&value, 4, (const void *)argument);
	return value;
}

static __always_inline void fill_caller(struct pcie_record *record, bool in_thread)
{
	struct task_struct *task = bpf_get_current_task_btf();

	record->flags = in_thread ? 0 : PCIE_IN_INTERRUPT;
	record->tgid = in_thread ? task->tgid : 0;
	record->tid = in_thread ? task->pid : 0;
	record->unused = 0;
	if (in_thread)
		fill_identity(&record->identity, task);
	else
		__builtin_memset(&record->identity, 0, sizeof(record->identity));
}

static __always_inline void fill(struct pcie_record *record, const struct kcall *call, __u64 now_ns,
				 struct pt_regs *regs)
{
	record->ended_ns = now_ns;
	record->duration_ns = now_ns - call->started_ns;
	record->device = call->argument[0];
	record->offset = call->function & PCIE_USER ? call->argument[1] : call->argument[2];
	record->value = value_of(call);
	record->result = PT_REGS_RC(regs);
	record->access = call->function & PCIE_COOKIE_MASK;
	fill_caller(record, kcall_in_thread(call));
}

static __always_inline bool send_first(struct thread *thread, const struct kcall *call,
				       __u64 now_ns, struct pt_regs *regs)
{
	struct pcie_first_record *record;

	record = bpf_ringbuf_reserve(&pcie_events, sizeof(*record), 0);
	if (!record)
		return false;
	fill(&record->call, call, now_ns, regs);
	FILL_PART(record, details, fill_details);
	set_described(&thread->described);
	SUBMIT(record);
	return true;
}

static __always_inline bool send_next(const struct kcall *call, __u64 now_ns, struct pt_regs *regs)
{
	struct pcie_record *record = bpf_ringbuf_reserve(&pcie_events, sizeof(*record), 0);

	if (!record)
		return false;
	fill(record, call, now_ns, regs);
	SUBMIT(record);
	return true;
}

static __always_inline void send(struct thread *thread, const struct kcall *call, __u64 now_ns,
				 struct pt_regs *regs)
{
	bool is_sent = kcall_in_thread(call) && !is_described(&thread->described)
			   ? send_first(thread, call, now_ns, regs)
			   : send_next(call, now_ns, regs);

	if (is_sent)
		ACCOUNT(events, 1);
	else
		ACCOUNT(lost[LOST_ring_full], 1);
}

static __always_inline void enter(struct pt_regs *regs)
{
	struct thread *thread;
	struct kcall *call;

	/* Also for unwanted devices: else their returns would look unmatched. */
	thread = bpf_task_storage_get(&pcie_threads, bpf_get_current_task_btf(), NULL,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_no_state], 1);
		return;
	}
	call = kcall_begin(&thread->open, regs);
	if (!call)
		return; /* never happens: kcall_begin() makes room */
	thread->device = device_accessed(regs, call->function);
	if (!every_device && !bpf_map_lookup_elem(&pcie_devices, &thread->device))
		return;
	ACCOUNT(entered, 1);
	call->argument[0] = thread->device;
	call->started_ns = bpf_ktime_get_ns();
}

static __always_inline void leave(struct pt_regs *regs)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct thread *thread;
	struct kcall *call;

	thread = bpf_task_storage_get(&pcie_threads, bpf_get_current_task_btf(), NULL, 0);
	call = thread ? kcall_end(&thread->open, bpf_get_attach_cookie(regs)) : NULL;
	if (!call)
		ACCOUNT(unmatched, 1);
	else if (call->started_ns)
		send(thread, call, now_ns, regs);
}

KCALL_PROGRAMS(enter, leave)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
