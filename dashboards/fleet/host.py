"""The families of the host probes, of one work: its GPU processes and their data loaders."""

from fleet import buckets
from fleet.work import Failure


HERE = "here"  # a second of each second in which the program does something
DRAINED = {"none": (0.3, 0.0002), "stream": (0.1, 0.004), "device": (0.6, 0.02)}  # share of gaps, and their mean


class Host:
    def __init__(self, cuda):
        one, clock = cuda.work, cuda.clock
        self.of, self.activity = cuda, HERE

        def going_on(*activities):
            rates = [one.activities[activity] for activity in activities]
            return clock.total(lambda second: 1.0 if any(rate(second) > 0 for rate in rates) else 0.0, max(0.0, -one.start))

        cuda.totals = {**cuda.totals, HERE: going_on(*one.threads),
                       **{(HERE, activity): going_on(activity) for activity in one.threads}}
        self.roles = ("gpu", "worker") if one.loaders else ("gpu",)

    def of_roles(self, rows):
        """Of rows that begin with a role: those of roles that the program has."""
        return [row for row in rows if row[0] in self.roles]

    def life(self):
        """Loaders begin with each epoch and end after it; some programs are told to stop."""
        count = self.of.counter
        for role, starts in self.of_roles((("gpu", 0), ("worker", 0.002))):
            labels = {"role": role}
            count("gpusnoop_host_process_starts_total", labels, self.activity, starts)
            for cause, share in (("0", 0.95), ("SIGTERM", 0.05)):
                count("gpusnoop_host_process_exits_total", {**labels, "cause": cause}, self.activity, starts * share)
            self.crash(labels)
            self.of.histogram("gpusnoop_host_process_lifetime_seconds", labels, buckets.LIFETIMES, self.activity, starts,
                              900, 0.8)
        for role, signal, sender, per_step in self.of_roles((
                ("gpu", "SIGCHLD", "kernel", 0.002), ("worker", "SIGTERM", "process", 0.0001),
                ("worker", "SIGALRM", "kernel", 0.01))):
            count("gpusnoop_host_signals_total", {"role": role, "signal": signal, "sender": sender}, self.activity,
                  per_step)
        if self.of.work.slurm:  # which tells a job when to write its checkpoint
            count("gpusnoop_host_signals_total", {"role": "gpu", "signal": "SIGUSR1", "sender": "process"}, self.activity,
                  0.00005)

    def crash(self, labels):
        """Of a program whose calls fail before it ends."""
        one, seconds = self.of.work, self.of.clock.seconds
        if labels["role"] == "gpu" and one.of(Failure) and one.end < seconds[-1]:
            ended = [len(one.processes) if second >= one.end else 0 for second in seconds]
            self.of.store.add("gpusnoop_host_process_exits_total", {**one.labels, **labels, "cause": "SIGABRT"}, ended, 1.0,
                              self.of.first, self.of.counted_until)

    def tasks(self):
        count = self.of.counter
        for role, cpu in self.of_roles((("gpu", 0.4 * len(self.of.work.processes)), ("worker", 5.6))):
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
        for role, connects in self.of_roles((("gpu", 0.001), ("worker", 0.05))):
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
        """Of the threads that launch, one in each process."""
        number = len(self.of.work.processes)
        cpu = "gpusnoop_host_launch_thread_cpu_seconds_total"
        for activity, profile in self.of.work.threads.items():
            for (phase, state), share in profile.items():
                self.of.counter("gpusnoop_host_launch_thread_seconds_total", {"phase": phase, "state": state}, (HERE, activity),
                                share * number, whole=False)
                if state == "running":
                    for process in self.of.work.processes:
                        self.of.counter(cpu, {"gpu": process.gpu, "numa_node": str(process.gpu // 2)}, (HERE, activity), share,
                                        whole=False)
            self.gaps((HERE, activity), {state: share for (phase, state), share in profile.items() if phase == "host"})
        for role, waits in self.of_roles((("gpu", 30), ("worker", 80))):
            self.of.histogram("gpusnoop_host_runqueue_latency_seconds", {"role": role}, buckets.RUN_QUEUE, self.activity, waits,
                              0.0003, 1.2)
        self.waits()
        self.of.store.constant("gpusnoop_host_launch_threads", self.of.work.labels, number, self.of.first, self.of.last)

    def gaps(self, activity, states):
        """What the thread does outside of calls is what it does in gaps; a twentieth of it is in gaps too short to explain."""
        for process in self.of.work.processes:
            gpu = {"gpu": process.gpu}
            for drain, (part, mean) in DRAINED.items():
                number = part * sum(states.values()) / mean
                self.of.histogram("gpusnoop_host_launch_gap_seconds", gpu, buckets.LAUNCH_GAPS, activity, number, mean, 1.0)
                self.of.histogram("gpusnoop_host_launch_gap_by_drain_seconds", {**gpu, "drain": drain}, buckets.LAUNCH_GAPS,
                                  activity, number, mean, 1.0)
                for state, share in states.items():
                    self.of.counter("gpusnoop_host_launch_gap_state_seconds_total", {**gpu, "drain": drain, "state": state},
                                    activity, 0.95 * part * share, whole=False)

    def waits(self):
        """Of all threads: loaders read from storage and wait until somebody takes what they have read."""
        for role, state, seconds in self.of_roles((
                ("gpu", "futex", 6.0), ("gpu", "poll", 2.0), ("gpu", "file", 0.01), ("gpu", "device", 0.01),
                ("worker", "file", 1.7), ("worker", "pipe", 4.9), ("worker", "socket", 0.1), ("worker", "page_fault", 0.02))):
            self.of.counter("gpusnoop_host_blocked_seconds_total", {"role": role, "state": state}, self.activity, seconds,
                            whole=False)
        for role, filesystem, waits, mean in self.of_roles((
                ("gpu", "ext4", 5, 0.002), ("worker", "nfs", 180, 0.009), ("worker", "unknown", 20, 0.002),
                ("worker", "tmpfs", 5, 0.001))):
            place = {"role": role, "filesystem": filesystem}
            self.of.histogram("gpusnoop_host_file_wait_seconds", place, buckets.LAUNCH_GAPS, self.activity, waits, mean, 1.2)
            self.of.counter("gpusnoop_host_file_blocked_seconds_total", place, self.activity, waits * mean, whole=False)

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
