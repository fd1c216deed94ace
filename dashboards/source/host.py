"""What the host does to GPU programs and to what they start."""

from .common import ERROR_COLORS, HOST, dashboard, limit, node_columns, program_columns
from .host_panels import gpu_without_work, held_up, what_takes_the_time
from .model import Row
from .panels import EACH_MINUTE, EACH_SECOND, Column, heatmap, table, timeseries
from .promql import (NODE_NAME, PROGRAM_NAME, buckets, happened, highest, increase, lines, own, quantile, rate, top, total,
                     wide)

ROLE_NAME = f"{PROGRAM_NAME} {{{{role}}}}"
# Of ends by a signal, those that nobody asks for. Data loaders end by SIGTERM.
KILLED = f'cause=~"SIGKILL|{limit("killed_causes")}"'
SIGNALS = " or ".join(increase("host_signals_total", 'sender="process"', *which)
                      for which in (('role="gpu"',), ('role!="gpu"', 'signal!="SIGTERM"')))
OFF_BY_DEFAULT = "The probe %s is off by default."
NOT_COUNTED = "This histogram is off by default: gpusnoop_%s in histograms of config.yaml."


def _is_it_the_host():
    return Row(
        "Does the host keep the GPU waiting?",
        what_takes_the_time(rate, height=9),
        held_up(rate, width=24),
        gpu_without_work(rate, width=24),
    )


def _launch_gaps():
    return Row(
        "Launch gaps",
        timeseries("Time without a submission, by program", "Share of the time of launching threads in explained launch gaps (1 ms "
                   "and longer, by default), which end when the program submits work again. device: it had waited for the device, "
                   "which is idle then; stream: for a stream or an event; none: the GPU may still be busy.", "percentunit",
                   (lines(10, f"({total('comm, drain', rate('host_launch_gap_state_seconds_total'))}\n  / on ({wide('comm')}) "
                              f"group_left () {total('comm', rate('host_launch_thread_seconds_total'))})"),
                    f"{PROGRAM_NAME} {{{{drain}}}}")),
        heatmap("Length of launch gaps", "Of all selected programs. A program that runs well has short gaps.", "s",
                buckets("host_launch_gap_seconds")),
    )


def _waits():
    blocked, files = "host_blocked_seconds_total", "host_file_wait_seconds"
    return Row(
        "What data loaders and other threads wait for",
        timeseries("Blocked workers", "Threads of data loaders and of other processes that GPU programs started, by what they are "
                   "blocked on, on average.", "short",
                   (lines(10, total("comm, state", rate(blocked, 'role="worker"'))), f"{PROGRAM_NAME} {{{{state}}}}")),
        timeseries("Blocked threads of GPU processes", "Threads by what they are blocked on, on average.", "short",
                   (lines(10, total("comm, state", rate(blocked, 'role="gpu"'))), f"{PROGRAM_NAME} {{{{state}}}}")),
        timeseries("Waits for files, by program", "Threads that wait for a file or a directory, on average, by file system. unknown: "
                   "accesses by name, such as open and stat.", "short",
                   (lines(10, total("comm, role, filesystem", rate("host_file_blocked_seconds_total"))),
                    f"{ROLE_NAME} {{{{filesystem}}}}")),
        timeseries("Duration of waits for files, p99", f"99 of 100 waits are shorter. {NOT_COUNTED % files}", "s",
                   (lines(10, quantile(0.99, "comm, filesystem", files)), f"{PROGRAM_NAME} {{{{filesystem}}}}"),
                   logarithmic=True),
    )


def _starts_and_ends():
    return Row(
        "Starts, exits and kills",
        table("Killed processes", "GPU processes and their workers that crashed or were killed in this range, by signal or by "
              "the OOM killer. /api/v1/exits of the node's exporter names the sender.",
              [*node_columns(), *program_columns(), Column("role", "role"), Column("cause", "cause"),
               Column("Value", "processes", "short", colors=ERROR_COLORS)],
              top(50, happened("instance, comm, role, cause", "host_process_exits_total", KILLED)),
              height=5, width=24, nothing="no process was killed"),
        table("Signals from other processes", "Signals to GPU processes and their workers in this range, except SIGTERM, "
              "which ends data loaders.",
              [*node_columns(), *program_columns(), Column("role", "role"), Column("signal", "signal"),
               Column("Value", "signals", "short")],
              top(50, f"round({total('instance, comm, role, signal', SIGNALS)}) > 0"),
              height=4, width=24, nothing="no signal"),
        timeseries("Process starts by program", "GPU processes count at their first CUDA call, workers when they start. "
                   "Many starts mean a crash loop, or a program that starts a process for each item.",
                   EACH_MINUTE,
                   (lines(10, f"60 * {total('comm, role', rate('host_process_starts_total'))}"), ROLE_NAME)),
        timeseries("Process exits by cause", "An exit code, a signal, oom_kill (no host memory left) or exec (another program took "
                   "over).", EACH_MINUTE,
                   (lines(10, f"60 * {total('comm, role, cause', rate('host_process_exits_total'))}"), f"{ROLE_NAME} {{{{cause}}}}")),
    )


def _cpu():
    latency = "host_runqueue_latency_seconds"
    return Row(
        "CPU",
        timeseries("CPU time by program", "CPUs that are busy for each program, on average.", "short",
                   (lines(10, total("comm, role", rate("host_cpu_seconds_total"))), ROLE_NAME)),
        timeseries("Waits for a CPU, by program", "Threads that are ready but have no CPU, on average: other threads have it, or the "
                   "CPU quota of their cgroup is used up.", "short",
                   (lines(10, total("comm, role", rate("host_runqueue_wait_seconds_total"))), ROLE_NAME)),
        timeseries("Duration of waits for a CPU, p99", f"99 of 100 waits are shorter. {NOT_COUNTED % latency}", "s",
                   (lines(10, quantile(0.99, "comm, role", latency)), ROLE_NAME), logarithmic=True),
        timeseries("CPU time of launching threads, by NUMA node", "A GPU is best fed from its own NUMA node.", "short",
                   (lines(10, total("instance, comm, numa_node", rate("host_launch_thread_cpu_seconds_total"))),
                    f"{PROGRAM_NAME} NUMA node {{{{numa_node}}}} {{{{node}}}}")),
        table("NUMA nodes of GPUs", "The NUMA node that each GPU is attached to.",
              [*node_columns(), Column("gpu", "GPU"), Column("Value", "NUMA node", "short")],
              top(200, highest("instance, gpu", own("gpu_numa_node")))),
        timeseries("Launching threads", "Threads that launch GPU work, by program.", "short",
                   (lines(10, total("comm", own("host_launch_threads"))), PROGRAM_NAME)),
        collapsed=True,
    )


def _memory():
    return Row(
        "Host memory and storage",
        timeseries("Host memory by program", "Of all running processes of a program. Locked and pinned memory cannot be swapped "
                   "out.", "bytes",
                   (lines(10, total("comm, role, kind", own("host_memory_bytes"))), f"{ROLE_NAME} {{{{kind}}}}")),
        timeseries("Stalls on host memory", "Threads that reclaim memory themselves, on average: for the machine (direct), for their "
                   "cgroup (memcg), or because free memory is fragmented (compaction).", "short",
                   (lines(10, total("comm, role, kind", rate("host_reclaim_stall_seconds_total"))),
                    f"{ROLE_NAME} {{{{kind}}}}"), alarm="orange"),
        timeseries("Major page faults by program", "A major fault waits for storage: memory is short, or mapped data is cold.",
                   EACH_SECOND,
                   (lines(10, total("comm, role", rate("host_page_faults_total", 'kind="major"'))), ROLE_NAME)),
        timeseries("Storage reads and writes by program", "Bytes from and to storage; reads that the page cache answers do not "
                   "count.", "binBps",
                   (lines(10, total("comm, role, op", rate("host_io_bytes_total"))), f"{ROLE_NAME} {{{{op}}}}")),
        collapsed=True,
    )


def _cgroups():
    name = f"{{{{cgroup}}}} {NODE_NAME}"
    return Row(
        "Cgroups of GPU programs",
        timeseries("Throttled", "CPUs that a cgroup could not use because its quota was used up, on average.", "short",
                   (lines(10, total("instance, cgroup", rate("host_cpu_throttled_seconds_total"))), name)),
        timeseries("Throttled periods", "CPU quota periods in which the cgroup was throttled, as a share of those in which it ran.",
                   "percentunit",
                   (lines(10, f"{total('instance, cgroup', rate('host_cpu_throttled_periods_total'))}\n"
                          f"  / {total('instance, cgroup', rate('host_cpu_periods_total'))}"), name)),
        timeseries("Pressure", "Share of time in which some or all tasks of a cgroup waited for CPU, memory or storage.",
                   "percentunit",
                   (lines(10, total("instance, cgroup, resource, kind", rate("host_pressure_seconds_total"))),
                    "{{cgroup}} {{resource}} {{kind}} {{node}}")),
        timeseries("Memory by NUMA node", "Memory of each cgroup, by NUMA node.", "bytes",
                   (lines(10, total("instance, cgroup, numa_node", own("host_memory_numa_bytes"))),
                    "{{cgroup}} NUMA node {{numa_node}} {{node}}")),
        collapsed=True,
    )


def _network():
    name = f"{ROLE_NAME} {{{{peer}}}}"
    by_peer = "comm, role, peer"
    retransmits, segments = "host_tcp_retransmits_total", "host_tcp_sent_segments_total"
    return Row(
        "Network",
        timeseries("TCP bytes sent and received", "RDMA bypasses the kernel and is not included.", "binBps",
                   (lines(10, total(by_peer, rate("host_tcp_sent_bytes_total"))), f"{name} sent"),
                   (lines(10, total(by_peer, rate("host_tcp_received_bytes_total"))), f"{name} received")),
        timeseries("TCP retransmits", "Share of the sent TCP segments: the network loses or delays them.", "percentunit",
                   (lines(10, f"{total(by_peer, rate(retransmits))}\n  / {total(by_peer, rate(segments))}"), name)),
        timeseries("TCP round-trip time, p99", f"99 of 100 round trips are shorter. {NOT_COUNTED % 'host_tcp_rtt_seconds'}", "s",
                   (lines(10, quantile(0.99, by_peer, "host_tcp_rtt_seconds")), name), logarithmic=True),
        timeseries("Duration of TCP connects, p99", "From the first SYN of connects that succeeded. A lost SYN is sent again after a "
                   "second.", "s",
                   (lines(10, quantile(0.99, "comm, role", "host_tcp_connect_duration_seconds")), ROLE_NAME), logarithmic=True),
        table("Failed TCP connects", "In this range. given_up: the program closed the socket first.",
              [*node_columns(), *program_columns(), Column("role", "role"), Column("error", "error"),
               Column("Value", "connects", "short", colors=ERROR_COLORS)],
              top(50, happened("instance, comm, role, error", "host_tcp_connect_failures_total")),
              nothing="no connect failed"),
        timeseries("Lost UDP datagrams", "Datagrams dropped because the socket's receive buffer was full.", EACH_SECOND,
                   (lines(10, total("instance, cgroup", rate("host_udp_receive_drops_total"))),
                    f"{{{{cgroup}}}} {NODE_NAME}"), alarm="orange"),
        collapsed=True,
    )


def _off_by_default():
    block = "host_block_io_duration_seconds"
    return Row(
        "Block devices, interrupts and virtual machines",
        timeseries("Duration of block requests, p99", "Of requests that these programs issue themselves. "
                   + OFF_BY_DEFAULT % "host_block", "s",
                   (lines(10, quantile(0.99, "instance, device, op", block)), "{{device}} {{op}} {{node}}"), logarithmic=True),
        timeseries("Bytes of block requests", "Of requests that these programs issue themselves. " + OFF_BY_DEFAULT % "host_block",
                   "binBps",
                   (lines(10, total("instance, device, op", rate("host_block_io_bytes_total"))), "{{device}} {{op}} {{node}}")),
        timeseries("CPU time of interrupts", "CPUs that interrupts take from these programs, on average, in the driver (hard) or "
                   "deferred (soft). " + OFF_BY_DEFAULT % "host_irq", "short",
                   (lines(10, total("comm, kind, source", rate("host_interrupt_seconds_total"))),
                    f"{PROGRAM_NAME} {{{{kind}}}} {{{{source}}}}")),
        timeseries("Virtual CPUs outside of their guests", "Virtual CPUs that are halted, or that wait for the host to do something "
                   "for their guest, on average. " + OFF_BY_DEFAULT % "host_kvm", "short",
                   (total("", rate("host_kvm_exit_seconds_total")), "exits"),
                   (total("", rate("host_kvm_halt_seconds_total")), "halted")),
        timeseries("Exits of virtual machines", "Exits to the process of the virtual machine by reason, and all exits. "
                   + OFF_BY_DEFAULT % "host_kvm", EACH_SECOND,
                   (lines(10, total("reason", rate("host_kvm_userspace_exits_total"))), "to the process: {{reason}}"),
                   (total("", rate("host_kvm_exits_total")), "all")),
        collapsed=True,
    )


def make():
    return dashboard(
        HOST, "Host",
        "Does the host keep the GPU waiting? What the host does to GPU programs and to the processes they start.",
        [_is_it_the_host(), _starts_and_ends(), _waits(), _launch_gaps(), _cpu(), _memory(), _cgroups(), _network(),
         _off_by_default()])
