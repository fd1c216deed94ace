/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the virtual CPUs of followed processes leave their guests for. */
#ifndef GPUSNOOP_HOST_KVM_H
#define GPUSNOOP_HOST_KVM_H

#include "bpf/lib/processes/followed.h"
#include "bpf/lib/traced.h"

enum kvm_event {
	KVM_EXIT,      /* the guest does not run, until it is entered again */
	KVM_USERSPACE, /* the process itself has to do something for the guest */
	KVM_HALT,      /* the virtual CPU had nothing to do, until an interrupt */
	KVM_EVENTS,
};

struct kvm_key {
	__u64 since_ns;
	__u32 tgid;
	__u16 event;  /* enum kvm_event */
	__u16 role;   /* enum followed_role */
	__u32 reason; /* of KVM_USERSPACE: KVM_EXIT_* of linux/kvm.h, or KVM_REASON_*; of KVM_HALT:
			 whether its thread slept; else 0 */
	__u32 unused;
};
WIRE_SIZE(struct kvm_key, 24);

/* Instead of a reason: KVM_RUN has failed. */
#define KVM_REASON_SIGNAL 0x10000 /* with EINTR */
#define KVM_REASON_ERROR  0x10001

/* For a trace: KVM_USERSPACE and KVM_HALT. */
struct kvm_record {
	struct traced_record head;
	__u64 nanoseconds;
	__u32 tid; /* the virtual CPU's thread */
	__u32 reason;
	__u16 event; /* enum kvm_event */
	__u16 role;  /* enum followed_role */
	__u32 unused;
};
WIRE_SIZE(struct kvm_record, 24 + 24);

#endif
