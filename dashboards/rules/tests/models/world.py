"""Nodes with exporters and programs, as a Prometheus that scrapes them every minute sees them.

An exporter counts from its start on; a counter is there from its first event on; what was allocated before
the exporter's start is unknown to it, unless its tables are pinned. So the series follow from what programs do
and from what happens to exporters, scrapes and Prometheus, and not from what an alert looks at.
"""
import dataclasses

from . import host
from .programs import MIB

STALE = "stale"
TOTAL_MIB = 81559   # of an H100
PROBES = ("cuda", "functions", "pcie", "nvlink", "fence", "syscall", "xid", "in_flight")


@dataclasses.dataclass
class Node:
    instance: str = "n1:19435"
    programs: list = dataclasses.field(default_factory=list)
    cluster: str = ""
    gpus: tuple = ("0",)
    dcgm: bool = True
    host: bool = True                  # whether the host probes are enabled
    numa: dict = dataclasses.field(default_factory=dict)      # GPU: its NUMA node, where it is not 0
    pins: bool = False
    starts: tuple = (-10 * 1440,)      # minutes in which the exporter starts; it is away for the minute before
    down: tuple = ()                   # (from, until): scrapes fail
    here: tuple = ((-1440, 10**9),)    # (from, until): the node is a target
    states: dict = dataclasses.field(default_factory=dict)    # probe: state, where it is not up
    lost: object = None                # minute -> {(probe, reason): events}
    folded: object = None              # minute -> label sets of gpusnoop_cuda_kernel_launches_total
    attach_failures: object = None     # minute -> failures
    sink_lost: object = None           # minute -> events
    reload_failed: tuple = ()          # (from, until)
    all_ones: object = None            # minute -> (reads, of which all ones)
    xids: object = None                # minute -> [(xid, class, its Program or None, number)]
    sxids: object = None               # minute -> {(sxid, severity): number}

    def uuid(self, gpu):
        return f"GPU-{self.cluster}{self.instance.split(':')[0]}-{gpu}"


class Exporter:
    """The memory of one process of the exporter."""

    def __init__(self, started):
        self.started = started
        self.counters = {}
        self.unknown = {}          # pid: bytes that were allocated before it started
        self.ranks = {}            # pid: its collective operations, and the minute of the last
        self.idle = {}             # pid: seconds since its last launch, and the state in which it waits

    def count(self, family, labels, by):
        if by:
            key = (family, tuple(labels.items()))
            self.counters[key] = self.counters.get(key, 0) + by

    def watch(self, program, minute):
        """Counts what the program did in the minute before this one."""
        age = minute - program.start
        own = program.labels()
        on = {**own, "gpu": program.gpu}
        graphs = program.graphs(age)
        unseen = round(program.launches(age) * program.unseen)
        launches = program.launches(age) - unseen
        self.count("gpusnoop_cuda_kernel_launches_total", {**own, "kernel": "gemm", "grid": "128x1x1",
                                                           "block": "256x1x1", "gpu": program.gpu}, launches)
        self.count("gpusnoop_cuda_launches_unobserved_total", on, unseen)
        if launches and not program.unseen:
            self.count("gpusnoop_cuda_kernel_launch_duration_seconds_count", on, launches)
            key = ("gpusnoop_cuda_kernel_launch_duration_seconds_bucket", tuple({**on, "le": "0.01"}.items()))
            self.counters[key] = self.counters.get(key, 0) + round(launches * (1 - program.late))
        self.count("gpusnoop_cuda_graph_launches_total", on, graphs)
        copies = program.copies(age)
        if copies:
            labels = {**own, "direction": "h2d", "mode": "sync", "gpu": program.gpu}
            self.count("gpusnoop_cuda_memcpy_total", labels, copies.number)
            self.count("gpusnoop_cuda_memcpy_bytes_total", labels, copies.number * copies.size)
            self.count("gpusnoop_cuda_memcpy_seconds_total", labels, copies.seconds)
        for (library, function), number in program.calls(age).items():
            self.count("gpusnoop_function_calls_total", {**own, "library": library, "function": function}, number)
        for (library, function), number in program.slow(age).items():
            self.count("gpusnoop_function_slow_calls_total", {**own, "library": library, "function": function}, number)
        for (library, function, error), number in program.failures(age).items():
            self.count("gpusnoop_function_errors_total",
                       {**own, "library": library, "function": function, "error": error}, number)
        for (function, error), number in program.errors(age).items():
            self.count("gpusnoop_cuda_api_errors_total", {**own, "function": function, "error": error}, number)
            if error in ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY"):
                self.count("gpusnoop_cuda_out_of_memory_total", {**on, "verdict": program.verdict}, number)
        # Of communicators that were made before the exporter's start, nothing is known.
        known = program.start >= self.started
        of = {name: value if known and value else "unknown" for name, value in (
            ("communicator", program.named() if program.rank else ""), ("rank", program.rank), ("nranks", program.nranks))}
        own = {**own, "library": "libnccl.so.2"}
        operations = program.nccl(age)
        self.count("gpusnoop_nccl_operations_total",
                   {**own, "function": "ncclAllReduce", "datatype": "float32", "op": "sum", **of}, operations)
        self.count("gpusnoop_nccl_operations_total",
                   {**own, "function": "ncclSend", "datatype": "float32", "op": "", **of}, program.sends(age))
        self.count("gpusnoop_probe_events_lost_total", {"probe": "functions", "reason": "ring_full"}, program.lost(age))
        if known and program.rank and operations:
            done, _ = self.ranks.get(program.pid, (0, 0))
            self.ranks[program.pid] = done + operations - program.lost(age), minute
        self.count("gpusnoop_probe_entries_total", {"probe": "cuda"}, launches + graphs + 1)

    def held(self, program, minute, pins):
        """Bytes that this exporter knows the program holds, by the age that memory has at least."""
        now = program.memory(minute - program.start)
        if program.start < self.started and not pins and program.pid not in self.unknown:
            self.unknown[program.pid] = program.memory(self.started - program.start)
        unknown = min(self.unknown.get(program.pid, 0), now)
        if program.pid in self.unknown:
            self.unknown[program.pid] = unknown * (1 - program.replaces)
        since = max(program.start, -10**9 if pins else self.started)
        ages = {}
        for age, minutes in (("10m", 10), ("1h", 60)):
            lowest = (min(program.memory(m - program.start) for m in range(minute - minutes, minute + 1))
                      if minute - minutes >= since else 0)
            ages[age] = max(0, int(lowest * (1 - program.replaces) ** minutes - unknown))
        return int(now - unknown), ages


class World:
    def __init__(self, minutes, nodes, unseen=(), begins=0, every=0):
        self.minutes, self.nodes = minutes, nodes
        self.unseen = unseen      # (from, until): Prometheus does not run
        self.begins = begins      # the first minute that Prometheus has data of
        # Minutes between evaluations. At seven, no evaluation is a whole window after another: a range of
        # Prometheus 3 leaves out its oldest end.
        self.every = every or (10 if minutes > 400 else 5)
        self.series = {}

    def run(self):
        exporters = {}
        # An hour before, so that counters are not new at the first minute.
        for minute in range(-60, self.minutes + 1):
            seen = {}
            for node in self.nodes:
                self.step(node, minute, exporters, seen)
            if minute >= self.begins and not within(self.unseen, minute) and minute >= 0:
                self.store(minute, seen)
        return self.series

    def step(self, node, minute, exporters, seen):
        key = (node.cluster, node.instance)
        begun = [start for start in node.starts if start <= minute]
        if not within(node.here, minute) or not begun:
            return
        started = max(begun)
        if key not in exporters or exporters[key].started != started:
            pinned = exporters[key].unknown if key in exporters and node.pins else {}
            exporters[key] = Exporter(started)
            exporters[key].unknown = pinned
        exporter = exporters[key]
        running = [program for program in node.programs if program.runs(minute)]
        for program in running:
            if program.traced:
                exporter.watch(program, minute)
                if node.host:
                    host.watch(exporter, program, minute - program.start)
        for program in node.programs if node.host else ():
            if program.traced and program.end == minute:
                host.ended(exporter, program)
        self.watch_itself(node, minute, exporter)
        away = within(node.down, minute) or minute + 1 in node.starts
        target = {"job": "gpusnoop", "instance": node.instance, **({"cluster": node.cluster} if node.cluster else {})}
        put(seen, "up", target, 0 if away else 1)
        if not away:
            self.page(node, minute, exporter, running, target, seen)
        self.beside(node, minute, running, seen)

    @staticmethod
    def watch_itself(node, minute, exporter):
        for (probe, reason), number in (node.lost(minute) if node.lost else {}).items():
            exporter.count("gpusnoop_probe_events_lost_total", {"probe": probe, "reason": reason}, number)
            exporter.count("gpusnoop_probe_entries_total", {"probe": probe}, number)
        if node.folded:
            exporter.count("gpusnoop_series_folded_total", {"metric": "gpusnoop_cuda_kernel_launches_total"},
                           node.folded(minute))
        if node.attach_failures:
            exporter.count("gpusnoop_probe_attach_failures_total", {"probe": "cuda", "reason": "elf"},
                           node.attach_failures(minute))
        if node.sink_lost:
            exporter.count("gpusnoop_sink_events_lost_total", {"sink": "collector", "reason": "queue_full"},
                           node.sink_lost(minute))
        if node.all_ones:
            reads, ones = node.all_ones(minute)
            labels = {"device": "0000:3b:00.0", "op": "read", "size": "4", "origin": "driver"}
            exporter.count("gpusnoop_pcie_config_accesses_total", labels, reads)
            exporter.count("gpusnoop_pcie_config_all_ones_reads_total", labels, ones)
        for xid, of, program, number in node.xids(minute) if node.xids else ():
            who = program.labels() if program else {"comm": "unknown"}
            exporter.count("gpusnoop_gpu_xid_total",
                           {**who, "gpu": "0", "device": "0000:3b:00.0", "xid": xid, "class": of}, number)
        for (sxid, severity), number in (node.sxids(minute) if node.sxids else {}).items():
            exporter.count("gpusnoop_nvswitch_sxid_total",
                           {"device": "0000:c4:00.0", "sxid": sxid, "severity": severity}, number)

    @staticmethod
    def page(node, minute, exporter, running, target, seen):
        put(seen, "process_start_time_seconds", target, exporter.started * 60)
        put(seen, "gpusnoop_config_last_reload_successful", target, 0 if within(node.reload_failed, minute) else 1)
        blocked = dict.fromkeys(("cuda", "functions"), 0)
        for probe in PROBES:
            state = node.states.get(probe, "up")
            put(seen, "gpusnoop_probe_state", {**target, "probe": probe, "state": state}, 1)
        for gpu in node.gpus:
            put(seen, "gpusnoop_gpu_info", {**target, "gpu": gpu, "uuid": node.uuid(gpu), "name": "NVIDIA H100"}, 1)
            if node.host:
                put(seen, "gpusnoop_gpu_numa_node", {**target, "gpu": gpu}, node.numa.get(gpu, 0))
        for program in running:
            if not program.traced:
                continue
            own = {**target, **program.labels(), "pid": program.pid}
            complete = program.start >= exporter.started or node.pins
            put(seen, "gpusnoop_process_info", {**own, "exe": "/usr/bin/python3.11", "complete": str(complete).lower(),
                                                **({"pod_uid": program.pod[2]} if program.pod else {})}, 1)
            held, ages = exporter.held(program, minute, node.pins)
            put(seen, "gpusnoop_cuda_memory_outstanding_bytes", {**own, "gpu": program.gpu, "memory_kind": "device"}, held)
            for age, size in ages.items():
                put(seen, "gpusnoop_cuda_memory_outstanding_older_than_bytes", {**own, "age": age}, size)
            for family, labels, value in host.gauges(program, minute - program.start) if node.host else ():
                put(seen, family, {**target, **labels}, value)
            if program.rank and program.start >= exporter.started:
                of = {**own, "communicator": program.named(), "rank": program.rank, "nranks": program.nranks}
                done, moved = exporter.ranks.get(program.pid, (0, program.start))
                # Ranks are not scraped at the same moment.
                moment = (7 * minute + 3 * int(program.rank)) % 4 if moved == minute else 0
                put(seen, "gpusnoop_nccl_sequence", of, max(0, done - moment))
                put(seen, "gpusnoop_nccl_last_operation_timestamp_seconds", of, moved * 60 - moment)
            for (library, function), age in program.hangs(minute - program.start).items():
                labels = {**own, "library": library, "function": function}
                put(seen, "gpusnoop_calls_in_flight", labels, 1)
                put(seen, "gpusnoop_oldest_call_seconds", labels, age)
            for probe, number in program.blocked(minute - program.start).items():
                blocked[probe] += number
        for probe, number in blocked.items():
            put(seen, "gpusnoop_probe_in_flight_calls", {**target, "probe": probe}, number)
        for (family, labels), value in exporter.counters.items():
            put(seen, family, {**target, **dict(labels)}, round(value, 6))

    @staticmethod
    def beside(node, minute, running, seen):
        """dcgm-exporter, which sees the whole GPU, and kube-state-metrics."""
        cluster = {"cluster": node.cluster} if node.cluster else {}
        for gpu in node.gpus if node.dcgm else ():
            on = [program for program in running if program.gpu == gpu]
            used = sum(program.memory(minute - program.start) for program in on) // MIB + 500
            host = node.instance.split(":")[0]
            labels = {"job": "dcgm-exporter", "instance": f"{host}:9400", "gpu": gpu, "UUID": node.uuid(gpu),
                      "Hostname": host, **cluster}
            put(seen, "DCGM_FI_DEV_FB_USED", labels, used)
            put(seen, "DCGM_FI_DEV_FB_FREE", labels, TOTAL_MIB - used)
            put(seen, "DCGM_FI_DEV_GPU_UTIL", labels,
                min(100, sum(program.utilization(minute - program.start) for program in on)))
        for program in running:
            if program.pod:
                namespace, pod, uid = program.pod
                put(seen, "kube_pod_info", {"job": "kube-state-metrics", "namespace": namespace, "pod": pod, "uid": uid,
                                            **cluster}, 1)

    def store(self, minute, seen):
        for key, value in seen.items():
            self.series.setdefault(key, {})[minute] = value
        for key, values in self.series.items():
            if key not in seen and values[max(values)] != STALE:
                values[minute] = STALE


def put(seen, family, labels, value):
    text = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
    seen[f"{family}{{{text}}}"] = value


def within(spans, minute):
    return any(begin <= minute < end for begin, end in spans)


def notation(values, minutes):
    """The samples of a series in promtool's notation: runs of equal steps are one word."""
    samples = [values.get(minute) for minute in range(minutes + 1)]
    while samples and samples[-1] is None:
        samples.pop()
    words, at = [], 0
    while at < len(samples):
        value, end = samples[at], at + 1
        if value is None or value == STALE:
            while end < len(samples) and samples[end] == value:
                end += 1
            # A second stale marker says nothing new.
            words.append(f"_x{end - at}" if value is None else "stale")
            if value == STALE and end - at > 1:
                words.append(f"_x{end - at - 1}")
        else:
            step = None
            while end < len(samples) and isinstance(samples[end], (int, float)):
                by = round(samples[end] - samples[end - 1], 6)
                if step is None:
                    step = by
                if by != step:
                    break
                end += 1
            number = end - at - 1
            words.append(str(value) if number == 0 else
                         f"{value}x{number}" if step == 0 else f"{value}{step:+}x{number}")
        at = end
    return " ".join(words)
