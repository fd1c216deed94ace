"""What the host does to GPU programs and to what they start."""

from .common import ERROR_COLORS, HOST, dashboard, node_columns, program_columns
from .host_panels import gpu_without_work, time_of_launching_threads
from .model import Row
from .panels import EACH_MINUTE, EACH_SECOND, Column, heatmap, table, timeseries
from .promql import (PROGRAM_NAME, buckets, grown, highest, increase, lines, own, quantile, rate, top, total, within)

ROLE_NAME = f"{PROGRAM_NAME} {{{{role}}}}"
PROGRAM = "instance, comm"
HELD_UP = 'phase!="wait", state!="running"'
WAITS = 'phase="wait"'
# An end that somebody or something forced.
FORCED = 'cause=~"SIG.+|oom_kill"'


def _is_it_the_host():
    seconds = "host_launch_thread_seconds_total"

    def share(matchers):
        return f"{total(PROGRAM, increase(seconds, matchers))}\n  / {total(PROGRAM, increase(seconds))}"

    return Row(
        "Is it the host?",
        time_of_launching_threads(rate, width=16, height=10),
        table("Programs", "The shares of their launching threads' time in this range, those first that are blocked on the host "
              "or wait for a CPU for most of it.",
              [*node_columns(), *program_columns(),
               Column("Value #A", "held up", "percentunit", colors=ERROR_COLORS),
               Column("Value #B", "waits for the GPU", "percentunit"),
               Column("Value #C", "threads", "short")],
              *within(PROGRAM, top(50, share(HELD_UP)), share(WAITS), total(PROGRAM, own("host_launch_threads"))), width=8,
              height=10, sort="held up"),
        timeseries("Outside of waits for the GPU, by state", "CPUs' worth of time of launching threads, of the phases other "
                   "than wait. runnable: no CPU was free; throttled: the CPU limit of the cgroup; page_fault and file: data "
                   "is not in memory.", "short",
                   (total("state", rate(seconds, 'phase!="wait"')), "{{state}}"), width=8, stack=True),
        timeseries("Duration of waits for a CPU", "How long half, and 99 of 100, waits of their threads for a CPU last at most, of the "
                   "ten programs that wait longest.", "s",
                   (lines(10, quantile(0.5, "comm, role", "host_runqueue_latency_seconds")), f"{ROLE_NAME} p50"),
                   (lines(10, quantile(0.99, "comm, role", "host_runqueue_latency_seconds")), f"{ROLE_NAME} p99"),
                   width=8, logarithmic=True),
        timeseries("CPU time by NUMA node", "On which nodes launching threads run: a GPU is best fed from its own.", "short",
                   (total("instance, numa_node", rate("host_launch_thread_cpu_seconds_total")), "{{instance}} node {{numa_node}}"),
                   width=8, stack=True),
    )


def _launch_gaps():
    return Row(
        "Launch gaps",
        heatmap("Gaps", "How long programs give their GPUs nothing: from the end of the last submission or wait to the "
                "beginning of the next submission. Of a program that runs well they are short.", "s",
                buckets("host_launch_gap_seconds"), width=8),
        gpu_without_work(rate, width=8),
        timeseries("Gaps by program", "Seconds in each second in which a program gives its GPU nothing. After a wait for the "
                   "device (device) or for a stream or an event (stream), the GPU has none of that work left; after a "
                   "submission (none) it may be busy.", "short",
                   (lines(10, total("comm, drain", rate("host_launch_gap_seconds_sum"))), f"{PROGRAM_NAME} {{{{drain}}}}"),
                   width=8),
    )


def _waits():
    blocked, files = "host_blocked_seconds_total", "host_file_wait_seconds"
    return Row(
        "What data loaders and other threads wait for",
        timeseries("Blocked workers", "Threads of data loaders and of other processes that GPU programs have started, that are "
                   "blocked in these, on average.", "short",
                   (lines(10, total("comm, state", rate(blocked, 'role="worker"'))), f"{PROGRAM_NAME} {{{{state}}}}"), width=8),
        timeseries("Blocked threads of GPU processes", "The same of all threads of GPU processes.", "short",
                   (lines(10, total("comm, state", rate(blocked, 'role="gpu"'))), f"{PROGRAM_NAME} {{{{state}}}}"), width=8),
        timeseries("Waits for files, by file system", "Threads that wait for a file or a directory, on average. unknown: by name, "
                   "as open and stat do.", "short",
                   (lines(10, total("role, filesystem", rate(f"{files}_sum"))), "{{role}} {{filesystem}}"), width=8),
        heatmap("Duration of waits for files", "How long threads wait for a file or a directory, each time that they do.", "s",
                buckets(files), width=8),
        timeseries("Duration of waits for files, by file system", "How long half, and 99 of 100, of these waits last at most.", "s",
                   (lines(10, quantile(0.5, "filesystem", files)), "{{filesystem}} p50"),
                   (lines(10, quantile(0.99, "filesystem", files)), "{{filesystem}} p99"), width=16, logarithmic=True),
    )


def _cpu():
    return Row(
        "CPU",
        timeseries("CPU time", "CPUs that are busy for each program, on average.", "short",
                   (lines(10, total("comm, role", rate("host_cpu_seconds_total"))), ROLE_NAME), width=8),
        timeseries("Waits for a CPU", "Threads that are ready and have no CPU, on average: others have it, or the CPU "
                   "quota of their cgroup is used up.", "short",
                   (lines(10, total("comm, role", rate("host_runqueue_wait_seconds_total"))), ROLE_NAME), width=8),
        timeseries("Context switches", "Voluntary ones wait for something; involuntary ones make room for another thread.",
                   EACH_SECOND,
                   (lines(10, total("comm, role, kind", rate("host_context_switches_total"))), f"{ROLE_NAME} {{{{kind}}}}"),
                   width=8),
        timeseries("CPU time of interrupts", "CPUs that interrupts keep busy in place of these programs, on average, by the driver "
                   "(hard) or what it put off (soft). The probe host_irq is off by default.", "short",
                   (lines(10, total("role, kind, source", rate("host_interrupt_seconds_total"))), "{{role}} {{kind}} {{source}}"),
                   width=12),
        timeseries("Interrupts", "How many there are in place of these programs. The probe host_irq is off by default.", EACH_SECOND,
                   (lines(10, total("role, kind, source", rate("host_interrupts_total"))), "{{role}} {{kind}} {{source}}"),
                   width=12),
        timeseries("Virtual CPUs outside of their guests", "Virtual CPUs that are, on average, halted, or do not run their guest as "
                   "the host does something for it. The probe host_kvm is off by default.", "short",
                   (total("", rate("host_kvm_exit_seconds_total")), "exits"),
                   (total("", rate("host_kvm_halt_seconds_total")), "halted"), width=12),
        timeseries("Exits of virtual machines", "How often the process of a virtual machine has to do something for its guest, by "
                   "reason; all exits, and halts that end. The probe host_kvm is off by default.", EACH_SECOND,
                   (lines(10, total("reason", rate("host_kvm_userspace_exits_total"))), "to the process: {{reason}}"),
                   (total("", rate("host_kvm_exits_total")), "all"),
                   (total("polled", rate("host_kvm_wakeups_total")), "halts, polled: {{polled}}"), width=12),
    )


def _memory():
    block = "host_block_io_duration_seconds"
    return Row(
        "Memory and storage",
        timeseries("Host memory", "Of all running processes of a program. locked and pinned may not be moved out.", "bytes",
                   (lines(10, total("comm, role, kind", own("host_memory_bytes"))), f"{ROLE_NAME} {{{{kind}}}}"), width=8),
        timeseries("Stalls for lack of memory", "Threads that free memory themselves, on average: of the machine (direct) or "
                   "their cgroup (memcg), or as none lay together (compaction).", "short",
                   (lines(10, total("comm, role, kind", rate("host_reclaim_stall_seconds_total"))),
                    f"{ROLE_NAME} {{{{kind}}}}"), width=8),
        timeseries("Number of stalls", "Stalls for lack of memory that have ended.", EACH_SECOND,
                   (lines(10, total("comm, role, kind", rate("host_reclaim_stalls_total"))), f"{ROLE_NAME} {{{{kind}}}}"),
                   width=8),
        timeseries("Page faults", "A major fault waits for storage: memory is short, or mapped data is cold.", EACH_SECOND,
                   (lines(10, total("comm, role, kind", rate("host_page_faults_total"))), f"{ROLE_NAME} {{{{kind}}}}"),
                   width=8),
        timeseries("Bytes from and to storage", "What the page cache had is not in it.", "binBps",
                   (lines(10, total("comm, role, op", rate("host_io_bytes_total"))), f"{ROLE_NAME} {{{{op}}}}"), width=8),
        timeseries("Bytes of block requests, by device", "Of requests that these programs issue themselves. The probe host_block "
                   "is off by default.", "binBps",
                   (lines(10, total("instance, device, op", rate("host_block_io_bytes_total"))),
                    "{{instance}} {{device}} {{op}}"), width=8),
        timeseries("Duration of block requests, by device", "How long half, and 99 of 100, of these requests take at most. The "
                   "probe host_block is off by default.", "s",
                   (lines(10, quantile(0.5, "instance, device, op", block)), "{{instance}} {{device}} {{op}} p50"),
                   (lines(10, quantile(0.99, "instance, device, op", block)), "{{instance}} {{device}} {{op}} p99"),
                   width=16, logarithmic=True),
    )


def _cgroups():
    name = "{{cluster}} {{instance}} {{cgroup}}"
    return Row(
        "Cgroups of GPU programs",
        timeseries("Pressure", "The share of time in which some, or all, of the tasks in a cgroup waited for CPU, memory or "
                   "storage.", "percentunit",
                   (lines(10, total("instance, cgroup, resource, kind", rate("host_pressure_seconds_total"))),
                    f"{name} {{{{resource}}}} {{{{kind}}}}"), width=8),
        timeseries("Throttled", "CPUs that a cgroup could not use as its quota was used up, on average.", "short",
                   (lines(10, total("instance, cgroup", rate("host_cpu_throttled_seconds_total"))), name), width=8),
        timeseries("Throttled periods", "The share of the periods in which a cgroup ran and used its CPU quota up.",
                   "percentunit",
                   (lines(10, f"{total('instance, cgroup', rate('host_cpu_throttled_periods_total'))}\n"
                          f"  / {total('instance, cgroup', rate('host_cpu_periods_total'))}"), name), width=8),
        timeseries("Memory by NUMA node", "Of the cgroups of GPU programs, by node of the machine.", "bytes",
                   (lines(10, total("instance, cgroup, numa_node", own("host_memory_numa_bytes"))), f"{name} node {{{{numa_node}}}}"),
                   width=8),
        timeseries("Idle CPUs by state", "CPUs of a node in each idle state, on average: to leave a deep one takes time.",
                   "short", (lines(10, total("instance, state", rate("host_cpu_idle_seconds_total"))),
                             "{{cluster}} {{instance}} {{state}}"), width=8),
        table("NUMA nodes of GPUs", "Which node of the machine each GPU is attached to.",
              [*node_columns(), Column("gpu", "GPU"), Column("Value", "NUMA node", "short")],
              top(200, highest("instance, gpu", own("gpu_numa_node"))), width=8),
        collapsed=True,
    )


def _network():
    name = f"{ROLE_NAME} {{{{peer}}}}"
    by_peer = "comm, role, peer"
    retransmits, segments = "host_tcp_retransmits_total", "host_tcp_sent_segments_total"
    return Row(
        "Network",
        timeseries("Bytes sent and received", "Through TCP connections. RDMA goes around the kernel, and is not in it.", "binBps",
                   (lines(10, total(by_peer, rate("host_tcp_sent_bytes_total"))), f"{name} sent"),
                   (lines(10, total(by_peer, rate("host_tcp_received_bytes_total"))), f"{name} received"), width=8),
        timeseries("Segments that are sent again", "The share of TCP segments: what the network loses, or brings late.", "percentunit",
                   (lines(10, f"{total(by_peer, rate(retransmits))}\n  / {total(by_peer, rate(segments))}"), name), width=8),
        timeseries("Round-trip times", "Of connections that carry something: how long half, and 99 of 100, are at most.", "s",
                   (lines(10, quantile(0.5, by_peer, "host_tcp_rtt_seconds")), f"{name} p50"),
                   (lines(10, quantile(0.99, by_peer, "host_tcp_rtt_seconds")), f"{name} p99"), width=8, logarithmic=True),
        timeseries("Connections", "At the last look. /api/v1/connections of a node's exporter has their addresses.", "short",
                   (lines(10, total(by_peer, own("host_tcp_connections"))), name), width=8),
        heatmap("Duration of connects", "From the first SYN on, of those that succeeded. A lost SYN is sent again after a second.",
                "s", buckets("host_tcp_connect_duration_seconds"), width=8),
        timeseries("Lost datagrams", "UDP datagrams that a socket's buffer had no room for, by cgroup.", EACH_SECOND,
                   (lines(10, total("instance, cgroup", rate("host_udp_receive_drops_total"))),
                    "{{cluster}} {{instance}} {{cgroup}}"), width=8),
        table("Connects that failed", "In this range. given_up: the program closed the socket first.",
              [*node_columns(), *program_columns(), Column("role", "role"), Column("error", "error"),
               Column("Value", "connects", "short", colors=ERROR_COLORS)],
              top(50, total("instance, comm, role, error", grown("host_tcp_connect_failures_total")) + " > 0"), width=24,
              height=6, nothing="none failed"),
        collapsed=True,
    )


def _starts_and_ends():
    return Row(
        "Starts and ends",
        timeseries("Starts", "Processes that began to be followed, per minute: GPU processes at their first CUDA call, "
                   "workers at their start, and the next program after each exec. Of the ten programs with the most.",
                   EACH_MINUTE,
                   (lines(10, f"60 * {total('comm, role', rate('host_process_starts_total'))}"), ROLE_NAME), width=8),
        timeseries("Ends by cause", "An exit code, a signal, oom_kill (the kernel had no memory left) or exec (it became "
                   "another program), per minute.", EACH_MINUTE,
                   (lines(10, f"60 * {total('role, cause', rate('host_process_exits_total'))}"), "{{role}} {{cause}}"),
                   width=8),
        timeseries("Signals by sender", "By the process itself, by another process, or by the kernel, per minute. "
                   "SIGCHLD is a child's end.", EACH_MINUTE,
                   (lines(10, f"60 * {total('signal, sender', rate('host_signals_total'))}"), "{{signal}} by {{sender}}"),
                   width=8),
        table("Ends by signal or lack of memory", "In this range. The page /api/v1/exits of a node's exporter says who sent "
              "the signal.",
              [*node_columns(), *program_columns(), Column("role", "role"), Column("cause", "cause"),
               Column("Value", "ends", "short", colors=ERROR_COLORS)],
              top(50, total("instance, comm, role, cause", grown("host_process_exits_total", FORCED)) + " > 0"), width=16,
              nothing="none was killed"),
        heatmap("Lifetimes", "How long processes ran that ended. Many short ones are a crash loop, or work that starts a "
                "program for each item.", "s", buckets("host_process_lifetime_seconds"), width=8),
        table("Signals from other processes", "In this range.",
              [*node_columns(), *program_columns(), Column("role", "role"), Column("signal", "signal"),
               Column("Value", "signals", "short")],
              top(50, total("instance, comm, role, signal", increase("host_signals_total", 'sender="process"')) + " > 0"),
              width=24, height=6),
    )


def make():
    return dashboard(
        HOST, "Host",
        "Is it the host that keeps the GPU waiting? What the host does to GPU programs and to what they start.",
        [_is_it_the_host(), _launch_gaps(), _waits(), _cpu(), _memory(), _cgroups(), _network(), _starts_and_ends()])
