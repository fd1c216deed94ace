/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* TCP connections of followed processes, and UDP datagrams that their cgroups lost. */
#ifndef GPUSNOOP_HOST_NET_H
#define GPUSNOOP_HOST_NET_H

#include "bpf/lib/processes/followed.h"

/* The values of the label `peer`. */
enum net_peer {
	NET_LOOPBACK, /* a loopback address, or the socket's own */
	NET_REMOTE,
	NET_PEERS,
};

/* Sums of connections, which only grow. */
enum net_sum {
	NET_SENT,     /* bytes of payload, each once */
	NET_RECEIVED, /* the same */
	NET_SEGMENTS, /* sent, with those without payload */
	NET_RETRANSMITS,
	NET_SUMS,
};

/* Upper bounds of the time that a connect took, in nanoseconds, inclusive. One more bucket is for
 * longer ones. A lost SYN is sent again after 1 s, and then after 3 s in all. */
#define NET_CONNECT_BOUNDS                                                                         \
	{50000,	   100000,    250000,	  500000,     1000000,	   2500000,    10000000,           \
	 50000000, 250000000, 1000000000, 3000000000, 10000000000, 60000000000}
#define NET_CONNECT_BUCKETS 14

/* What is not an errno: the program gave up, and closed the socket. */
#define NET_GIVEN_UP 0xffff

struct net_key {
	__u64 since_ns;
	__u32 tgid;
	__u16 role;  /* enum followed_role */
	__u16 which; /* of traffic, an enum net_peer; of connects, 0 or how they failed */
};
WIRE_SIZE(struct net_key, 16);

struct net_traffic {
	__u64 of[NET_SUMS];
};
WIRE_SIZE(struct net_traffic, 8 * NET_SUMS);

/* Connects that ended. */
struct net_connects {
	__u64 count;
	__u64 nanoseconds; /* these two of the ones that did not fail */
	__u64 durations[NET_CONNECT_BUCKETS];
};
WIRE_SIZE(struct net_connects, 16 + 8 * NET_CONNECT_BUCKETS);

/* In the network's order; of IPv4, the first four bytes. */
struct net_addresses {
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port; /* both in the machine's order */
	__u16 remote_port;
	__u16 family; /* AF_INET or AF_INET6 */
	__u16 peer;   /* enum net_peer */
};
WIRE_SIZE(struct net_addresses, 40);

/* A connection, in a look at all. */
struct net_connection {
	__u64 since_ns; /* with the tgid, the process that it belongs to */
	__u32 tgid;
	__u16 role;
	__u8 state;	  /* the kernel's number */
	__u8 has_traffic; /* 1: since the last look */
	struct net_addresses addresses;
	__u64 sent; /* these four since the connection began */
	__u64 received;
	__u32 segments;
	__u32 retransmits;
	__u32 rtt_us; /* smoothed; 0: not known yet */
	__u32 rtt_deviation_us;
	__u32 congestion_window; /* segments */
	__u32 send_window;	 /* bytes */
};
WIRE_SIZE(struct net_connection, 16 + 40 + 16 + 24);

/* A connection came into another state: in a trace. */
struct net_state_record {
	struct traced_record head;
	__u32 role;	/* enum followed_role */
	__u16 error;	/* an errno, once it has failed; else 0 */
	__u8 old_state; /* the kernel's numbers */
	__u8 new_state;
	__u64 in_state_ns; /* how long it was in the old one; 0: not known */
	struct net_addresses addresses;
};
WIRE_SIZE(struct net_state_record, 24 + 8 + 8 + 40);

#endif
