// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* TCP connects and connections of followed processes, and UDP datagrams that were dropped. Nothing
 * runs per packet: what a connection has carried, the kernel keeps in the socket. It is read when
 * the connection changes its state towards its end, and in between by an iterator over the files of
 * followed processes. */
#define PROBE net

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#include "bpf/host_net/connections.bpf.h"
#include "bpf/lib/bucket.bpf.h"
#include "bpf/lib/guard.bpf.h"
#include "bpf/lib/maps.bpf.h"

/* A record of each change of state, for a trace. */
const volatile bool tracing = false;

RING_MAP(net_events, 256 << 10);

ON_DEMAND_MAP(net_connects, FOLLOWED_MAX_PROCESSES, struct net_key, struct net_connects);

/* Dropped datagrams, by the id of the cgroup that the socket was made in. */
ON_DEMAND_MAP(net_drops, 4096, __u64, __u64);

static const struct net_connects no_connects;
static const __u64 no_drops;

static __always_inline struct followed *followed_current(void)
{
	return followed_process(bpf_get_current_task_btf());
}

/* A connect runs in the process that wants it. */
static __always_inline struct connection *begin_connect(struct sock *sk, struct tcp_sock *tcp,
							struct connection *connection)
{
	struct followed *process = followed_current();
	__u32 tgid = bpf_get_current_task_btf()->tgid;

	if (!process)
		return connection;
	if (!connection)
		connection = claim(sk, tcp, bpf_get_current_task_btf(), process);
	if (!connection)
		return NULL;
	if (connection->connect_ns)
		ACCOUNT(stale, 1); /* its end was skipped */
	set_owner(connection, sk, tgid, process);
	set_counted(connection, sk, tcp); /* a socket may connect more than once */
	ACCOUNT(entered, 1);
	connection->connect_ns = bpf_ktime_get_ns();
	return connection;
}

BUCKET_FUNCTION(bucket_of, NET_CONNECT_BUCKETS, NET_CONNECT_BOUNDS)

/* How a connect failed. Without an error, the program has closed the socket, or no port was free.
 */
static __always_inline __u16 failure_of(struct sock *sk)
{
	if (sk->sk_err)
		return sk->sk_err;
	return sk->sk_shutdown ? NET_GIVEN_UP : NET_EADDRNOTAVAIL;
}

static __always_inline void end_connect(struct connection *connection, __u16 failure)
{
	__u64 took_ns = bpf_ktime_get_ns() - connection->connect_ns;
	struct net_connects *connects;

	connection->connect_ns = 0;
	connection->connect.which = failure;
	connects = bpf_map_lookup_elem(&net_connects, &connection->connect);
	if (!connects) {
		bpf_map_update_elem(&net_connects, &connection->connect, &no_connects, BPF_NOEXIST);
		connects = bpf_map_lookup_elem(&net_connects, &connection->connect);
	}
	if (!connects) {
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	__sync_fetch_and_add(&connects->count, 1);
	if (!failure) {
		__u32 bucket = bucket_of(took_ns);

		barrier_var(bucket);
		if (bucket < NET_CONNECT_BUCKETS)
			__sync_fetch_and_add(&connects->durations[bucket], 1);
		__sync_fetch_and_add(&connects->nanoseconds, took_ns);
	}
	ACCOUNT(events, 1);
}

static __always_inline void follow_connect(struct connection *connection, struct sock *sk,
					   int before, int after)
{
	if (after == BPF_TCP_ESTABLISHED) {
		end_connect(connection, 0);
	} else if (before != BPF_TCP_CLOSE && before != BPF_TCP_SYN_SENT &&
		   before != BPF_TCP_SYN_RECV) {
		connection->connect_ns = 0; /* its end was skipped */
		ACCOUNT(stale, 1);
	} else if (after == BPF_TCP_CLOSE) {
		end_connect(connection, failure_of(sk));
	}
}

static __always_inline void send_state(struct connection *connection, struct sock *sk, int before,
				       int after)
{
	struct net_state_record *record;
	__u64 now = bpf_ktime_get_ns();

	ACCOUNT(entered, 1);
	record = bpf_ringbuf_reserve(&net_events, sizeof(*record), 0);
	if (!record) {
		ACCOUNT(lost[LOST_ring_full], 1);
		connection->state_ns = now;
		return;
	}
	record->head.at_ns = now;
	record->head.since_ns = connection->traffic.since_ns;
	record->head.tgid = connection->traffic.tgid;
	record->head.type = 0;
	record->role = connection->traffic.role;
	record->error = sk->sk_err;
	record->old_state = before;
	record->new_state = after;
	record->in_state_ns = connection->state_ns ? now - connection->state_ns : 0;
	fill_addresses(&record->addresses, sk);
	connection->state_ns = now;
	SUBMIT(record);
	ACCOUNT(events, 1);
}

/* While a process is in a call of a socket, nobody else changes its state. */
static __always_inline struct connection *claim_for_current(struct sock *sk, struct tcp_sock *tcp,
							    int before, int after)
{
	struct followed *process;

	if (!sk->sk_lock.owned ||
	    (!tracing && (before == BPF_TCP_LISTEN || after == BPF_TCP_LISTEN)))
		return NULL;
	process = followed_current();
	return process ? claim(sk, tcp, bpf_get_current_task_btf(), process) : NULL;
}

static __always_inline void on_state(struct sock *sk, int before, int after)
{
	struct tcp_sock *tcp = is_tcp(sk) ? bpf_skc_to_tcp_sock(sk) : NULL;
	struct connection *connection;

	if (!tcp)
		return;
	connection = bpf_sk_storage_get(&net_sockets, sk, NULL, 0);
	if (after == BPF_TCP_SYN_SENT)
		connection = begin_connect(sk, tcp, connection);
	else if (!connection)
		connection = claim_for_current(sk, tcp, before, after);
	if (!connection)
		return;
	if (tracing)
		send_state(connection, sk, before, after);
	if (connection->connect_ns)
		follow_connect(connection, sk, before, after);
	if (after != BPF_TCP_SYN_SENT && after != BPF_TCP_ESTABLISHED && after != BPF_TCP_LISTEN)
		settle(connection, sk, tcp);
	if (after == BPF_TCP_CLOSE)
		bpf_sk_storage_delete(&net_sockets, sk);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(net_state, struct sock *sk, int before, int after)
{
	tracepoint_guard_begin();
	on_state(sk, before, after);
	tracepoint_guard_end();
	return 0;
}

static __always_inline void on_drop(struct sock *sk)
{
	struct kernfs_node *node = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn);
	__u64 id = BPF_CORE_READ((struct kernfs_node___with_id *)node, id);
	__u64 *drops = bpf_map_lookup_elem(&net_drops, &id);

	ACCOUNT(entered, 1);
	if (!drops) {
		bpf_map_update_elem(&net_drops, &id, &no_drops, BPF_NOEXIST);
		drops = bpf_map_lookup_elem(&net_drops, &id);
	}
	if (!drops) {
		ACCOUNT(lost[LOST_table_full], 1);
		return;
	}
	__sync_fetch_and_add(drops, 1);
	ACCOUNT(events, 1);
}

SEC("tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(net_drop, int result, struct sock *sk)
{
	tracepoint_guard_begin();
	on_drop(sk);
	tracepoint_guard_end();
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
