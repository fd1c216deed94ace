/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The iterator that looks at the connections of a process. */
#ifndef GPUSNOOP_LOOK_BPF_H
#define GPUSNOOP_LOOK_BPF_H

#include "bpf/host_net/connections.bpf.h"

__u64 net_look_number; /* of the look that runs */

/* Too much for the stack. One reader runs the iterator. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct net_connection);
} net_scratch SEC(".maps");

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
