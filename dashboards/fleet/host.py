"""The families of the host probes, of one work: its GPU processes and their data loaders."""

from fleet import buckets


class Host:
    def __init__(self, cuda):
        self.of, self.activity = cuda, next(iter(cuda.work.activities))

    def life(self):
        """Loaders begin with each epoch and end after it; some programs are told to stop."""
        count = self.of.counter
        for role, starts in (("gpu", 0), ("worker", 0.002)):
            labels = {"role": role}
            count("gpusnoop_host_process_starts_total", labels, self.activity, starts)
            for cause, share in (("0", 0.95), ("SIGTERM", 0.05)):
                count("gpusnoop_host_process_exits_total", {**labels, "cause": cause}, self.activity, starts * share)
            self.of.histogram("gpusnoop_host_process_lifetime_seconds", labels, buckets.LIFETIMES, self.activity, starts,
                              900, 0.8)
        for role, signal, sender, per_step in (("gpu", "SIGCHLD", "kernel", 0.002), ("worker", "SIGTERM", "process", 0.0001),
                                               ("worker", "SIGALRM", "kernel", 0.01)):
            count("gpusnoop_host_signals_total", {"role": role, "signal": signal, "sender": sender}, self.activity,
                  per_step)

    def tasks(self):
        count = self.of.counter
        for role, cpu in (("gpu", 0.4), ("worker", 1.6)):
            labels = {"role": role}
            count("gpusnoop_host_cpu_seconds_total", labels, self.activity, cpu, whole=False)
            count("gpusnoop_host_runqueue_wait_seconds_total", labels, self.activity, cpu / 20, whole=False)
            for kind, per_step in (("voluntary", 300), ("involuntary", 12)):
                count("gpusnoop_host_context_switches_total", {**labels, "kind": kind}, self.activity, per_step * cpu)
            for kind, per_step in (("minor", 900), ("major", 0.2)):
                count("gpusnoop_host_page_faults_total", {**labels, "kind": kind}, self.activity, per_step * cpu)
            for op, size in (("read", 6e6), ("write", 2e5)):
                count("gpusnoop_host_io_bytes_total", {**labels, "op": op}, self.activity, size * cpu)
        for process in self.of.work.processes:
            for kind, size in (("anon", 9e9), ("file", 6e8), ("shmem", 2e9), ("swap", 0), ("locked", 0), ("pinned", 1e9)):
                self.of.gauge("gpusnoop_host_memory_bytes", process, {"role": "gpu", "kind": kind},
                              [size] * self.of.clock.count)

    def memory(self):
        for kind, stalls in (("direct", 0), ("memcg", 0.05), ("compaction", 0)):
            labels = {"role": "worker", "kind": kind}
            self.of.counter("gpusnoop_host_reclaim_stalls_total", labels, self.activity, stalls)
            self.of.counter("gpusnoop_host_reclaim_stall_seconds_total", labels, self.activity, stalls * 0.002, whole=False)

    def block(self):
        for op, size, each in (("read", 6e6, 0.002), ("write", 2e5, 0.008)):
            labels = {"role": "worker", "device": "nvme0n1", "op": op}
            self.of.counter("gpusnoop_host_block_io_bytes_total", labels, self.activity, size)
            self.of.histogram("gpusnoop_host_block_io_duration_seconds", labels, buckets.BLOCK_REQUESTS, self.activity,
                              size / 131072, each, 0.6)

    def interrupts(self):
        for kind, source, rate, each in (("hard", "nvmeq", 900, 2e-6), ("hard", "mlx_comp", 2500, 3e-6),
                                         ("soft", "net_rx", 2400, 8e-6), ("soft", "timer", 250, 3e-6)):
            labels = {"role": "gpu", "kind": kind, "source": source}
            self.of.counter("gpusnoop_host_interrupts_total", labels, self.activity, rate)
            self.of.counter("gpusnoop_host_interrupt_seconds_total", labels, self.activity, rate * each, whole=False)

    def virtual_machines(self):
        count = self.of.counter
        count("gpusnoop_host_kvm_exits_total", {"role": "gpu"}, self.activity, 900)
        count("gpusnoop_host_kvm_exit_seconds_total", {"role": "gpu"}, self.activity, 0.004, whole=False)
        for reason, rate in (("io", 12), ("mmio", 4)):
            count("gpusnoop_host_kvm_userspace_exits_total", {"role": "gpu", "reason": reason}, self.activity, rate)
        for polled, rate in (("true", 80), ("false", 200)):
            count("gpusnoop_host_kvm_wakeups_total", {"role": "gpu", "polled": polled}, self.activity, rate)
        count("gpusnoop_host_kvm_halt_seconds_total", {"role": "gpu"}, self.activity, 2.5, whole=False)

    def network(self):
        """With the other nodes of the job, and with storage."""
        count = self.of.counter
        for role, peer, sent, received in (("gpu", "remote", 4e6, 4e6), ("gpu", "loopback", 2e4, 2e4),
                                           ("worker", "remote", 1e5, 6e6)):
            labels = {"role": role, "peer": peer}
            segments = sent / 1448 + received / 2896
            count("gpusnoop_host_tcp_sent_bytes_total", labels, self.activity, sent)
            count("gpusnoop_host_tcp_received_bytes_total", labels, self.activity, received)
            count("gpusnoop_host_tcp_sent_segments_total", labels, self.activity, segments)
            count("gpusnoop_host_tcp_retransmits_total", labels, self.activity, segments * (2e-4 if peer == "remote" else 0))
            self.of.histogram("gpusnoop_host_tcp_rtt_seconds", labels, buckets.ROUND_TRIPS, self.activity, 2,
                              0.0004 if peer == "remote" else 0.00003, 0.6)
            self.of.store.constant("gpusnoop_host_tcp_connections", {**self.of.work.labels, **labels}, 8, self.of.first, self.of.last)
        for role, connects in (("gpu", 0.001), ("worker", 0.05)):
            self.of.histogram("gpusnoop_host_tcp_connect_duration_seconds", {"role": role}, buckets.CONNECTS, self.activity, connects,
                              0.0004, 0.8)
        count("gpusnoop_host_tcp_connect_failures_total", {"role": "worker", "error": "ECONNREFUSED"}, self.activity, 0.0001)

    def pressure(self):
        of, one = self.of, self.of.work
        labels = {"cgroup": one.container_id or one.comm, "container_id": one.container_id,
                  "slurm_job_id": one.labels["slurm_job_id"]}
        steps = of.totals[self.activity]

        def add(name, own, per_step, whole=False):
            of.store.add(name, {**labels, **own}, steps, per_step, of.first, of.counted_until, whole=whole)

        for resource, kind, seconds in (("cpu", "some", 0.02), ("memory", "some", 0.001), ("memory", "full", 0.0005),
                                        ("io", "some", 0.01), ("io", "full", 0.004)):
            add("gpusnoop_host_pressure_seconds_total", {"resource": resource, "kind": kind}, seconds)
        add("gpusnoop_host_udp_receive_drops_total", {}, 0.01, True)
        add("gpusnoop_host_cpu_throttled_seconds_total", {}, 0.005)
        add("gpusnoop_host_cpu_periods_total", {}, 8, True)
        add("gpusnoop_host_cpu_throttled_periods_total", {}, 0.2, True)
        for node, kind, size in (("0", "anon", 8e9), ("1", "anon", 1e9), ("0", "file", 5e8)):
            of.store.gauge("gpusnoop_host_memory_numa_bytes", {**labels, "numa_node": node, "kind": kind},
                           [size] * of.clock.count, of.first, of.last)

    def time(self):
        """Of a thread that launches, in seconds for each step; a few programs are held up."""
        count = self.of.counter
        for phase, state, seconds in (("host", "running", 0.2), ("host", "pipe", 0.06), ("host", "futex", 0.03),
                                      ("host", "runnable", 0.01), ("host", "throttled", 0.004), ("host", "file", 0.01),
                                      ("launch", "running", 0.05), ("copy", "running", 0.02), ("memory", "device", 0.01),
                                      ("wait", "running", 0.25), ("wait", "poll", 0.3), ("other", "running", 0.01)):
            count("gpusnoop_host_launch_thread_seconds_total", {"phase": phase, "state": state}, self.activity, seconds,
                  whole=False)
        count("gpusnoop_host_launch_thread_cpu_seconds_total", {"gpu": "0", "numa_node": "0"}, self.activity, 0.53, whole=False)
        for drain, gaps, mean in (("none", 20, 0.0002), ("stream", 1, 0.004), ("device", 0.5, 0.02)):
            self.of.histogram("gpusnoop_host_launch_gap_seconds", {"gpu": "0", "drain": drain}, buckets.LAUNCH_GAPS, self.activity, gaps,
                              mean, 1.0)
            for state, share in (("running", 0.5), ("pipe", 0.3), ("futex", 0.1), ("cuda_call", 0.05)):
                count("gpusnoop_host_launch_gap_state_seconds_total", {"gpu": "0", "drain": drain, "state": state}, self.activity,
                      gaps * mean * share, whole=False)
        for role, waits in (("gpu", 30), ("worker", 80)):
            self.of.histogram("gpusnoop_host_runqueue_latency_seconds", {"role": role}, buckets.RUN_QUEUE, self.activity, waits,
                              0.0003, 1.2)
        self.waits()
        self.of.store.constant("gpusnoop_host_launch_threads", self.of.work.labels, 1, self.of.first, self.of.last)

    def waits(self):
        """Of all threads: loaders read from storage and wait until somebody takes what they have read."""
        for role, state, seconds in (("gpu", "pipe", 0.06), ("gpu", "file", 0.01), ("gpu", "device", 0.01),
                                     ("gpu", "throttled", 0.004), ("worker", "file", 0.5), ("worker", "pipe", 0.9),
                                     ("worker", "socket", 0.1), ("worker", "page_fault", 0.02)):
            self.of.counter("gpusnoop_host_blocked_seconds_total", {"role": role, "state": state}, self.activity, seconds,
                            whole=False)
        for role, filesystem, waits, mean in (("gpu", "ext4", 5, 0.002), ("worker", "nfs", 50, 0.009),
                                              ("worker", "unknown", 20, 0.002), ("worker", "tmpfs", 5, 0.001)):
            self.of.histogram("gpusnoop_host_file_wait_seconds", {"role": role, "filesystem": filesystem}, buckets.LAUNCH_GAPS,
                              self.activity, waits, mean, 1.2)

    def add(self):
        self.time()
        self.life()
        self.tasks()
        self.memory()
        self.block()
        self.interrupts()
        self.virtual_machines()
        self.network()
        self.pressure()
