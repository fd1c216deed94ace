/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reads which PCI device a kernel structure is of. */
#ifndef GPUSNOOP_PCI_BPF_H
#define GPUSNOOP_PCI_BPF_H

#include "bpf/lib/pci.h"

static __always_inline __u64 device_of(const struct pci_bus *bus, __u32 devfn)
{
	const struct pci_sysdata *sysdata;
	int domain;

	if (bpf_core_field_exists(bus->domain_nr)) {
		domain = BPF_CORE_READ(bus, domain_nr);
	} else {
		sysdata = BPF_CORE_READ(bus, sysdata);
		domain = BPF_CORE_READ(sysdata, domain);
	}
	return pcie_device(domain, BPF_CORE_READ(bus, number), devfn);
}

#endif
