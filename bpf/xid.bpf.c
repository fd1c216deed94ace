// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Xids and SXids, which the NVIDIA driver reports: each is a line in the kernel's log, and since
 * driver 575 a tracepoint. Only the lines that may be such go to the exporter, which reads them. */
#define PROBE xid

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/guard.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/pci.bpf.h"
#include "bpf/xid.h"

/* The driver's tracepoint stands for these lines, so they are not counted again. */
bool xid_by_driver = false;
bool sxid_by_driver = false;

RING_MAP(xid_events, 1 << 20);

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct inode___with_device {
	__u32 i_rdev; /* MAJOR << 20 | MINOR */
};

#pragma clang attribute pop

#define DEV_KMSG     (1U << 20 | 11)
#define PF_IO_WORKER 0x00000010
#define PF_KTHREAD   0x00200000

/* Is the current system call one on /dev/kmsg? Its first argument is then the descriptor. A line of
 * the driver is never logged by such a call, unless an interrupt comes in the middle of it. Workers
 * of io_uring write for others, and have no arguments. */
static __always_inline bool is_written_by_program(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct inode___with_device *inode;
	struct pt_regs *regs;
	struct fdtable *table;
	struct file **files;
	struct file *file = NULL;
	__u64 descriptor = 0;

	if (task->flags & PF_IO_WORKER)
		return true;
	if (task->flags & PF_KTHREAD)
		return false;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	bpf_probe_read_kernel(&descriptor, sizeof(descriptor), &PT_REGS_PARM1(regs));
	descriptor = (__u32)descriptor;
	table = BPF_CORE_READ(task, files, fdt);
	if (!table || descriptor >= BPF_CORE_READ(table, max_fds))
		return false;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + descriptor);
	if (!file)
		return false;
	inode = (struct inode___with_device *)BPF_CORE_READ(file, f_inode);
	return BPF_CORE_READ(inode, i_rdev) == DEV_KMSG;
}

/* The first bytes of the two kinds of lines, "NVRM: Xid (" and "nvidia-nvswitch0: SXid (". */
static __always_inline bool is_wanted(const char *text, __u64 length)
{
	char head[8] = {};

	if (length < sizeof(head) || bpf_probe_read_kernel(head, sizeof(head), text))
		return false;
	if (!__builtin_memcmp(head, "NVRM: Xi", sizeof(head)))
		return !xid_by_driver;
	if (!__builtin_memcmp(head, "nvidia-n", sizeof(head)))
		return !sxid_by_driver;
	return false;
}

static __always_inline struct xid_record *reserve(__u32 source)
{
	struct xid_record *record;

	ACCOUNT(entered, 1);
	record = bpf_ringbuf_reserve(&xid_events, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		return NULL;
	}
	record->at_ns = bpf_ktime_get_ns();
	record->device = 0;
	record->code = 0;
	record->source = source;
	record->written = 0;
	record->text_bytes = 0;
	return record;
}

/* Every line, when it is logged. Before Linux 5.19 (commit 701850dc0c31, "printk, tracing: fix
 * console tracepoint") a line comes here when it is shown on a console. The text has no NUL. */
SEC("tp_btf/console")
int BPF_PROG(xid_console, const char *text, __u64 length)
{
	struct xid_record *record;

	if (!is_wanted(text, length))
		return 0;
	tracepoint_guard_begin();
	record = reserve(XID_LOG);
	if (record) {
		barrier_var(length);
		if (length > sizeof(record->text))
			length = sizeof(record->text);
		if (!bpf_probe_read_kernel(record->text, length, text))
			record->text_bytes = length;
		record->written = is_written_by_program();
		SUBMIT(record);
		ACCOUNT(events, 1);
	}
	tracepoint_guard_end();
	return 0;
}

static __always_inline void on_report(const struct pci_dev *device, __u32 code, const char *text,
				      __u32 source)
{
	struct xid_record *record = reserve(source);
	long length;

	if (!record)
		return;
	if (device)
		record->device =
		    device_of(BPF_CORE_READ(device, bus), BPF_CORE_READ(device, devfn));
	record->code = code;
	length = bpf_probe_read_kernel_str(record->text, sizeof(record->text), text);
	if (length > 0)
		record->text_bytes = length - 1;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* (const struct pci_dev *device, uint32_t code, const char *text): kernel-open/nvidia/
 * nv-tracepoint.h and nvswitch_event.h of the driver. */
#define REPORT_PROGRAM(part, tracepoint, source)                                                   \
	SEC("raw_tp/" tracepoint)                                                                  \
	int NAMED(part)(struct bpf_raw_tracepoint_args * ctx)                                      \
	{                                                                                          \
		tracepoint_guard_begin();                                                          \
		on_report((const struct pci_dev *)ctx->args[0], ctx->args[1],                      \
			  (const char *)ctx->args[2], source);                                     \
		tracepoint_guard_end();                                                            \
		return 0;                                                                          \
	}

REPORT_PROGRAM(gpu, "nvidia_dev_xid", XID_GPU)
REPORT_PROGRAM(switch, "nvswitch_dev_sxid", XID_SWITCH)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
