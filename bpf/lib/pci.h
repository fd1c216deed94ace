/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A PCI device as one number, in records and maps. Valid in BPF C and in C++. */
#ifndef GPUSNOOP_PCI_H
#define GPUSNOOP_PCI_H

#include <linux/types.h>

static inline __attribute__((always_inline)) __u64 pcie_device(__u32 domain, __u32 bus, __u32 devfn)
{
	__u64 device = domain;

	return device << 32 | (bus & 0xffU) << 8 | (devfn & 0xffU);
}

#endif
