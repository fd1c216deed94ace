/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The contract of the probe `xid`: reports of the NVIDIA driver on errors of GPUs (Xid) and of
 * NVSwitches (SXid). */
#ifndef GPUSNOOP_XID_H
#define GPUSNOOP_XID_H

#include "bpf/lib/pci.h"
#include "bpf/lib/wire.h"

enum xid_source {
	XID_LOG,    /* a line of the kernel's log, as it was logged */
	XID_GPU,    /* the driver's tracepoint nvidia:nvidia_dev_xid */
	XID_SWITCH, /* the driver's tracepoint nvswitch:nvswitch_dev_sxid */
	XID_SOURCE_COUNT
};

/* The driver's lines have up to 300 bytes. */
#define XID_TEXT_BYTES 512

struct xid_record {
	__u64 at_ns;   /* CLOCK_MONOTONIC */
	__u64 device;  /* pcie_device(), from a tracepoint of the driver */
	__u32 code;    /* the same */
	__u32 source;  /* enum xid_source */
	__u32 written; /* a program wrote the line to /dev/kmsg */
	__u32 text_bytes;
	char text[XID_TEXT_BYTES];
};
WIRE_SIZE(struct xid_record, 2 * 8 + 4 * 4 + XID_TEXT_BYTES);

#endif
