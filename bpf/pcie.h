/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The contract of the probe `pcie`: accesses to the configuration space of PCI devices. */
#ifndef GPUSNOOP_PCIE_H
#define GPUSNOOP_PCIE_H

#include "bpf/lib/pci.h"
#include "bpf/lib/processes/process.h"

/* The attach cookie of a function describes its access. */
#define PCIE_SIZE(cookie) ((cookie) & 7U) /* bytes: 1, 2, 4 */
#define PCIE_WRITES	  8U
#define PCIE_USER	  16U /* pci_user_*, for user space, and not pci_bus_*, for drivers */
#define PCIE_COOKIE_MASK  31U

#define PCIE_MAX_DEVICES 4096

#define PCIE_IN_INTERRUPT 1U /* not on behalf of a process: the identity is empty */

struct pcie_record {
	__u64 ended_ns; /* CLOCK_MONOTONIC */
	__u64 duration_ns;
	__u64 device; /* pcie_device() */
	__u32 offset;
	__u32 value;  /* read or written; what a failed read left there */
	__s32 result; /* 0, a PCIBIOS_* number, or a negative errno */
	__u32 access; /* the cookie's bits */
	__u32 tgid;
	__u32 tid;
	__u32 flags; /* PCIE_* */
	__u32 unused;
	struct process_identity identity;
};
WIRE_SIZE(struct pcie_record, 3 * 8 + 8 * 4 + sizeof(struct process_identity));

/* The first access of each thread, in each program that it runs. */
struct pcie_first_record {
	struct pcie_record call;
	struct process_details details;
};
WIRE_SIZE(struct pcie_first_record, sizeof(struct pcie_record) + sizeof(struct process_details));

#endif
