/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What is kept of a connection of a followed process: whose it is, and how much of it has been
 * counted. It lies in the socket's storage, which the kernel frees with the socket. */
#ifndef GPUSNOOP_CONNECTIONS_BPF_H
#define GPUSNOOP_CONNECTIONS_BPF_H

#include <bpf/bpf_core_read.h>

#include "bpf/host_net/host_net.h"
#include "bpf/lib/emit.bpf.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/processes/followed.bpf.h"
#include "bpf/lib/sockets.h"

/* The kernel's own numbers. */
#define NET_TCP		  6  /* IPPROTO_TCP */
#define NET_IPV4	  2  /* AF_INET */
#define NET_IPV6	  10 /* AF_INET6 */
#define NET_STREAM	  1  /* SOCK_STREAM */
#define NET_EADDRNOTAVAIL 99
#define SOCK_DONE	  2 /* a bit of skc_flags: the other end has sent all that it will */

struct connection {
	/* Whose it is: who connected, or was first found with it. The key of its traffic, and of
	 * its connect: a key takes a third of the stack. */
	struct net_key traffic;
	struct net_key connect;
	__u64 connect_ns; /* when its connect began; 0: it is in none */
	__u64 state_ns;	  /* in a trace: when it came into its state; 0: not known */
	__u64 looked;	  /* the number of the last look that has found it */
	__u64 sent;	  /* these four have been counted */
	__u64 received;
	__u32 segments;
	__u32 retransmits;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} net_sockets SEC(".maps");

ON_DEMAND_MAP(net_traffic, 2 * FOLLOWED_MAX_PROCESSES, struct net_key, struct net_traffic);

/* Processes that the exporter has looked at: a connection of theirs that is new now has carried
 * nothing before. By tgid; the value is `since_ns`. */
ON_DEMAND_MAP(net_looked, FOLLOWED_MAX_PROCESSES, __u32, __u64);

static const struct net_traffic no_traffic;

static __always_inline bool is_tcp(struct sock *sk)
{
	__u16 family = sk->__sk_common.skc_family;

	return (family == NET_IPV4 || family == NET_IPV6) && sk->sk_type == NET_STREAM &&
	       sk->sk_protocol == NET_TCP;
}

static __always_inline __u64 sent_by(struct tcp_sock *tcp)
{
	return tcp->bytes_sent - tcp->bytes_retrans;
}

/* The kernel counts the other side's FIN as a byte. */
static __always_inline __u64 received_by(struct sock *sk, struct tcp_sock *tcp)
{
	__u64 bytes = tcp->bytes_received;

	return bytes && sk->__sk_common.skc_flags & SOCK_DONE ? bytes - 1 : bytes;
}

static __always_inline bool is_loopback4(__u32 address)
{
	return (address & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
}

static __always_inline bool is_loopback6(const struct in6_addr *address)
{
	const __u32 *words = address->in6_u.u6_addr32;

	if (words[0] || words[1])
		return false;
	return words[2] ? words[2] == bpf_htonl(0xffff) && is_loopback4(words[3])
			: words[3] == bpf_htonl(1);
}

static __always_inline bool is_same(const struct in6_addr *a, const struct in6_addr *b)
{
	return a->in6_u.u6_addr32[0] == b->in6_u.u6_addr32[0] &&
	       a->in6_u.u6_addr32[1] == b->in6_u.u6_addr32[1] &&
	       a->in6_u.u6_addr32[2] == b->in6_u.u6_addr32[2] &&
	       a->in6_u.u6_addr32[3] == b->in6_u.u6_addr32[3];
}

static __always_inline enum net_peer peer_of(struct sock *sk)
{
	struct sock_common *common = &sk->__sk_common;
	bool is_here;

	if (common->skc_family == NET_IPV4)
		is_here =
		    is_loopback4(common->skc_daddr) || common->skc_daddr == common->skc_rcv_saddr;
	else
		is_here = is_loopback6(&common->skc_v6_daddr) ||
			  is_same(&common->skc_v6_daddr, &common->skc_v6_rcv_saddr);
	return is_here ? NET_LOOPBACK : NET_REMOTE;
}

static __always_inline void set_counted(struct connection *connection, struct sock *sk,
					struct tcp_sock *tcp)
{
	connection->sent = sent_by(tcp);
	connection->received = received_by(sk, tcp);
	connection->segments = tcp->segs_out;
	connection->retransmits = tcp->total_retrans;
}

static __always_inline void set_owner(struct connection *connection, struct sock *sk, __u32 tgid,
				      const struct followed *process)
{
	connection->traffic.since_ns = connection->connect.since_ns = process->since_ns;
	connection->traffic.tgid = connection->connect.tgid = tgid;
	connection->traffic.role = connection->connect.role = role_of(process);
	connection->traffic.which = peer_of(sk);
}

/* So much later than its beginning a process can be seen to begin. */
#define NET_BEGINNING_NS 100000000ULL

/* Is all that a connection of the process has carried since it was followed? */
static __always_inline bool is_new(struct task_struct *task, const struct followed *process,
				   const __u32 *tgid)
{
	__u64 *looked;

	if (process->since_ns - task->group_leader->start_time < NET_BEGINNING_NS)
		return true;
	looked = bpf_map_lookup_elem(&net_looked, tgid);
	return looked && *looked == process->since_ns;
}

/* A connection that has no owner yet. NULL: there is no memory for it, which is counted. */
static __always_inline struct connection *claim(struct sock *sk, struct tcp_sock *tcp,
						struct task_struct *task,
						const struct followed *process)
{
	struct connection *connection =
	    bpf_sk_storage_get(&net_sockets, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (!connection) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_no_state], 1);
		return NULL;
	}
	set_owner(connection, sk, task->tgid, process);
	if (!is_new(task, process, &connection->traffic.tgid))
		set_counted(connection, sk, tcp); /* from now on */
	return connection;
}

/* Two can count one connection at once: a look, and its end. A sum only grows, and whoever replaces
 * the older value adds what is between both. */
#define COUNT_UP_TO(to, counted, value)                                                            \
	for (int i = 0; i < 4; i++) {                                                              \
		const typeof(*(counted)) now_ = (value);                                           \
		const typeof(now_) before_ = *(volatile typeof(now_) *)(counted);                  \
		const typeof(now_) grown_ = now_ - before_;                                        \
		if (!grown_ || grown_ >> (sizeof(now_) * 8 - 1))                                   \
			break;                                                                     \
		if (__sync_val_compare_and_swap((counted), before_, now_) == before_) {            \
			__sync_fetch_and_add((to), (__u64)grown_);                                 \
			break;                                                                     \
		}                                                                                  \
	}

/* Counts what the connection has carried since the last time. */
static __always_inline void settle(struct connection *connection, struct sock *sk,
				   struct tcp_sock *tcp)
{
	struct net_traffic *traffic = bpf_map_lookup_elem(&net_traffic, &connection->traffic);

	if (!traffic) {
		bpf_map_update_elem(&net_traffic, &connection->traffic, &no_traffic, BPF_NOEXIST);
		traffic = bpf_map_lookup_elem(&net_traffic, &connection->traffic);
	}
	if (!traffic) {
		ACCOUNT(entered, 1);
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	COUNT_UP_TO(&traffic->of[NET_SENT], &connection->sent, sent_by(tcp))
	COUNT_UP_TO(&traffic->of[NET_RECEIVED], &connection->received, received_by(sk, tcp))
	COUNT_UP_TO(&traffic->of[NET_SEGMENTS], &connection->segments, tcp->segs_out)
	COUNT_UP_TO(&traffic->of[NET_RETRANSMITS], &connection->retransmits, tcp->total_retrans)
}

static __always_inline void fill_addresses(struct net_addresses *to, struct sock *sk)
{
	struct sock_common *common = &sk->__sk_common;

	__builtin_memset(to, 0, sizeof(*to));
	to->family = common->skc_family;
	to->local_port = common->skc_num;
	to->remote_port = bpf_ntohs(common->skc_dport);
	to->peer = peer_of(sk);
	if (to->family == NET_IPV4) {
		bpf_probe_read_kernel(to->local, 4, &common->skc_rcv_saddr);
		bpf_probe_read_kernel(to->remote, 4, &common->skc_daddr);
	} else {
		bpf_probe_read_kernel(to->local, 16, &common->skc_v6_rcv_saddr);
		bpf_probe_read_kernel(to->remote, 16, &common->skc_v6_daddr);
	}
}

/* The iterator that looks at the connections of a process. */

__u64 net_look_number; /* of the look that runs */

/* Too much for the stack. One reader runs the iterator. */
PERCPU_MAP(net_scratch, 1, struct net_connection);

static __always_inline void fill_connection(struct net_connection *to,
					    const struct connection *connection, struct sock *sk,
					    struct tcp_sock *tcp)
{
	to->since_ns = connection->traffic.since_ns;
	to->tgid = connection->traffic.tgid;
	to->role = connection->traffic.role;
	to->state = sk->__sk_common.skc_state;
	fill_addresses(&to->addresses, sk);
	to->sent = sent_by(tcp);
	to->received = received_by(sk, tcp);
	to->has_traffic = to->sent != connection->sent || to->received != connection->received;
	to->segments = tcp->segs_out;
	to->retransmits = tcp->total_retrans;
	to->rtt_us = tcp->srtt_us >> 3;
	to->rtt_deviation_us = tcp->mdev_us >> 2;
	to->congestion_window = tcp->snd_cwnd;
	to->send_window = tcp->snd_wnd;
}

/* Its owner has ended, or become another program: it belongs to who has it now. */
static __always_inline bool is_ownerless(const struct connection *connection)
{
	struct followed *owner = bpf_map_lookup_elem(&follow_procs, &connection->traffic.tgid);

	return !owner || owner->since_ns != connection->traffic.since_ns || owner->ended_ns ||
	       !owner->reasons;
}

SEC("iter/task_file")
int net_look(struct bpf_iter__task_file *context)
{
	struct task_struct *task = context->task;
	struct file *file = context->file;
	struct connection *connection;
	struct net_connection *found;
	struct followed *process;
	struct socket *socket;
	struct tcp_sock *tcp;
	struct sock *sk;
	__u32 zero = 0;

	if (!task || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	process = followed_process(task);
	sk = socket->sk;
	if (!process || process->ended_ns || !sk || !is_tcp(sk))
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp || sk->__sk_common.skc_state == BPF_TCP_CLOSE ||
	    sk->__sk_common.skc_state == BPF_TCP_LISTEN)
		return 0;
	connection = bpf_sk_storage_get(&net_sockets, sk, NULL, 0);
	if (!connection)
		connection = claim(sk, tcp, task, process);
	found = bpf_map_lookup_elem(&net_scratch, &zero);
	if (!connection || !found || connection->looked == net_look_number)
		return 0;
	connection->looked = net_look_number;
	if (is_ownerless(connection))
		set_owner(connection, sk, task->tgid, process);
	else if (connection->traffic.tgid == (__u32)task->tgid)
		set_owner(connection, sk, task->tgid, process); /* it may have become another one */
	fill_connection(found, connection, sk, tcp);
	settle(connection, sk, tcp);
	bpf_seq_write(context->meta->seq, found, sizeof(*found));
	return 0;
}

#endif
