/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The kernel's types of sockets, as in bpf/lib/kernel.h: of each only the fields that our programs
 * read. */
#ifndef GPUSNOOP_SOCKETS_H
#define GPUSNOOP_SOCKETS_H

#include "bpf/lib/kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__u32 u6_addr32[4]; /* in the network's order */
	} in6_u;
};

struct sock_common {
	__u32 skc_daddr;     /* of IPv4; all in the network's order */
	__u32 skc_rcv_saddr; /* its own */
	__u16 skc_dport;
	__u16 skc_num; /* its own port, in the machine's order */
	unsigned short skc_family;
	unsigned char skc_state;
	unsigned long skc_flags;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock_cgroup_data {
	struct cgroup *cgroup; /* of the process that made the socket */
};

struct kernfs_node___with_id {
	__u64 id;
};

struct sock {
	struct sock_common __sk_common;
	struct {
		int owned; /* 1: a process is in a call of this socket */
	} sk_lock;
	__u8 sk_shutdown; /* the program closes it, or an end of it */
	__u16 sk_type;
	__u16 sk_protocol;
	int sk_err;
	struct sock_cgroup_data sk_cgrp_data;
};

struct socket {
	struct sock *sk;
};

struct tcp_sock {
	__u64 bytes_sent; /* with retransmitted ones */
	__u64 bytes_retrans;
	__u64 bytes_received;
	__u32 segs_out;
	__u32 total_retrans;
	__u32 srtt_us;	/* eighths */
	__u32 mdev_us;	/* quarters: how far the RTT is off, on average */
	__u32 snd_cwnd; /* segments */
	__u32 snd_wnd;	/* bytes */
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

#pragma clang attribute pop

#endif
