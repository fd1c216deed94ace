"""A node: its GPUs, and the families that are of no work: the driver's, and the exporter's own."""

import dataclasses
import random

from fleet import buckets
from fleet.clock import wobble

BUSES = ("1b", "3b", "86", "af")
PROBES = ("cuda", "functions", "torch", "pcie", "nvlink", "syscall", "fence", "host_time", "host_life", "host_tasks",
          "host_pressure", "host_memory", "host_net", "host_block", "host_irq", "host_kvm", "xid", "in_flight")
# Of the reasons for which events are lost, those that operators meet.
LOST = ("ring_full", "throttled", "allocation_table", "skipped", "forgotten")
FEATURES = ("btf", "kernel_reads", "ring_buffer", "uprobe_multi", "uprobe_multi_process", "uprobe_session",
            "uprobe_perf", "uretprobe_seccomp", "probe_cost")
HOST = {"container_id": "", "script": "", "slurm_job_id": ""}


@dataclasses.dataclass
class Node:
    name: str
    model: str
    memory_mib: int
    version: str = "1.0.0"
    revision: str = "8d41f07"
    restart: float | None = None  # seconds from the start of the picture
    down: float = 45.0  # for how long after that it answered no scrape
    failing: float | None = None  # when its GPU 2 fell off the bus
    cluster: str = ""

    @property
    def target(self):
        return {"cluster": self.cluster, "job": "gpusnoop", "instance": f"{self.name}:19435"}

    def uuid(self, gpu):
        digits = random.Random(f"{self.cluster} {self.name} {gpu}").randbytes(16).hex()
        return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    @staticmethod
    def bus(gpu):
        return f"0000:{BUSES[gpu]}:00.0"


def gpus(store, node):
    for gpu in range(len(BUSES)):
        store.constant("gpusnoop_gpu_info", {"gpu": gpu, "uuid": node.uuid(gpu), "pci_bus_id": node.bus(gpu),
                                             "name": node.model}, 1)


def host(store, node):
    """What host_pressure reads of the node itself."""
    for gpu in range(len(BUSES)):
        store.constant("gpusnoop_gpu_numa_node", {"gpu": gpu}, gpu // 2)
    idle = store.clock.total(wobble(node.name + " idle", 0.3), before=86400)
    for state, per_second in (("POLL", 0.01), ("C1", 6.0), ("C6", 40.0)):
        store.add("gpusnoop_host_cpu_idle_seconds_total", {"state": state}, idle, per_second, whole=False)


def driver(store, node):
    """What the driver and its daemons do: configuration space, NVLink's helpers, fences."""
    clock, name = store.clock, node.name
    polled = clock.total(wobble(name + " pcie", 0.2), before=86400)
    broken = clock.total(lambda second: 1.0 if node.failing is not None and second > node.failing else 0.0)
    for gpu in range(len(BUSES)):
        lost = node.failing is not None and gpu == 2
        for size, per_second in ((4, 0.8), (2, 0.2)):
            labels = {**HOST, "comm": "nv-hostengine", "device": node.bus(gpu), "op": "read", "size": size,
                      "origin": "driver"}
            store.add("gpusnoop_pcie_config_accesses_total", labels, polled, per_second)
            store.add("gpusnoop_pcie_config_errors_total", labels, broken, 0.1 if lost else 0)
            if size == 4:
                store.add("gpusnoop_pcie_config_all_ones_reads_total", labels, broken, 0.75 if lost else 0)
        labels = {**HOST, "comm": "nvidia-persiste", "device": node.bus(gpu), "op": "write", "size": 2,
                  "origin": "driver"}
        store.add("gpusnoop_pcie_config_accesses_total", labels, polled, 0.02)
        store.add("gpusnoop_pcie_config_errors_total", labels, broken, 0.02 if lost else 0)
    store.histogram("gpusnoop_pcie_config_access_duration_seconds", {**HOST, "comm": "nv-hostengine", "op": "read"},
                    buckets.PCIE, polled, 1.0 * len(BUSES), 1.4e-6, 0.5)
    for op, per_second, size in (("strcpy", 0.4, 40), ("memcpy", 3.0, 256), ("memset", 1.2, 512)):
        labels = {**HOST, "comm": "nv-hostengine", "op": op}
        store.add("gpusnoop_nvlink_helper_calls_total", labels, polled, per_second)
        store.add("gpusnoop_nvlink_helper_bytes_total", labels, polled, per_second * size)
        store.histogram("gpusnoop_nvlink_helper_duration_seconds", labels, buckets.NVLINK, polled, per_second, 4e-7,
                        0.5)
    for xid, of, per_second in (("79", "hardware", 0.001), ("45", "information", 0.004)):
        if node.failing is not None:
            store.add("gpusnoop_gpu_xid_total", {**HOST, "comm": "unknown", "gpu": 2, "device": node.bus(2), "xid": xid,
                                                 "class": of}, broken, per_second)
    store.constant("gpusnoop_nvswitch_sxid_total",
                   {"device": "0000:c4:00.0", "sxid": "12028", "severity": "nonfatal"}, 2, counter=True)
    store.constant("gpusnoop_xid_lines_ignored_total", {"reason": "continued"}, 4, counter=True)
    frames = clock.total(wobble(name + " fences", 0.4), before=86400)
    labels = {**HOST, "comm": "nvidia-modeset", "driver": "nvidia-drm"}
    for event, per_second in (("init", 2.0), ("emit", 2.0), ("enable_signal", 1.0), ("signaled", 2.0),
                              ("wait_start", 0.5), ("wait_end", 0.5), ("destroy", 2.0)):
        store.add("gpusnoop_dma_fence_events_total", {**labels, "timeline": "nvidia.prime", "event": event}, frames,
                  per_second)
    store.histogram("gpusnoop_dma_fence_wait_duration_seconds", labels, buckets.FENCES, frames, 0.5, 0.004, 0.9)
    store.histogram("gpusnoop_dma_fence_signal_latency_seconds", labels, buckets.FENCES, frames, 2.0, 0.006, 0.8)


def exporter(store, node, events):
    """`events`: of each probe, all that it counted until each scrape."""
    clock, count = store.clock, store.clock.count
    chance = random.Random(node.cluster + node.name)
    store.gauge("up", {}, [0 if index in store.gaps else 1 for index in range(count)])
    store.gauge("scrape_duration_seconds", {}, clock.sampled(
        lambda second, shape=wobble(node.name + " scrape", 0.4): 0.011 * shape(second)), whole=False)
    store.constant("gpusnoop_build_info", {"version": node.version, "revision": node.revision, "compiler": "GCC 12.2.0",
                                           "libbpf": "1.5"}, 1)
    started = clock.start - 6 * 86400 - chance.randrange(86400)
    starts = [clock.start + int(clock.seconds[store.restart]) - 20
              if store.restart and index >= store.restart else started for index in range(count)]
    store.gauge("process_start_time_seconds", {}, starts)
    store.gauge("gpusnoop_config_last_reload_success_timestamp_seconds", {}, [start + 1 for start in starts])
    store.constant("gpusnoop_config_last_reload_successful", {}, 1)
    for probe in PROBES:
        of_probe, labels = events.get(probe, [0.0] * count), {"probe": probe}
        store.constant("gpusnoop_probe_state", {**labels, "state": "up"}, 1)
        store.constant("gpusnoop_probe_attached_functions", labels,
                       {"cuda": 214, "functions": 168, "syscall": 2, "fence": 7}.get(probe, 4))
        for name, factor in (("entries", 1.0), ("events", 1.0), ("stale_calls", 0.0), ("nested_calls", 0.4),
                             ("unmatched_returns", 1e-9), ("runs", 2.0)):
            if name != "nested_calls" or probe in ("cuda", "functions"):
                store.add(f"gpusnoop_probe_{name}_total", labels, of_probe, factor)
        store.add("gpusnoop_probe_run_seconds_total", labels, of_probe, 2 * 3.4e-7, whole=False)
        store.constant("gpusnoop_probe_in_flight_calls", labels, chance.randrange(9) if of_probe[-1] else 0)
        for reason in LOST:
            store.constant("gpusnoop_probe_events_lost_total", {**labels, "reason": reason}, 0, counter=True)
        if probe in ("cuda", "functions"):
            for reason in ("open", "slow", "elf", "no_symbols", "attach", "pin"):
                store.constant("gpusnoop_probe_attach_failures_total", {**labels, "reason": reason}, 0, counter=True)
            broken = node.failing is not None and probe == "cuda"
            for signal in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS"):
                deaths = [int(broken and signal == "SIGSEGV" and second > node.failing + 30)
                          for second in clock.seconds]
                store.add("gpusnoop_process_deaths_in_traced_calls_total", {**labels, "signal": signal}, deaths)
    for reason in ("ring_full", "busy"):
        store.constant("gpusnoop_slow_call_details_lost_total", {"reason": reason}, 0, counter=True)
    store.constant("gpusnoop_slow_calls_not_logged_total", {}, 0, counter=True)
    store.constant("gpusnoop_log_lines_lost_total", {}, 0, counter=True)
    functions = events.get("functions", [0.0] * count)
    store.add("gpusnoop_sink_events_total", {"sink": "file:slow_calls"}, functions, 1e-5)
    for reason in ("queue_full", "stopped"):
        store.constant("gpusnoop_sink_events_lost_total", {"sink": "file:slow_calls", "reason": reason}, 0,
                       counter=True)
    store.gauge("gpusnoop_discovery_last_round_age_seconds", {}, clock.sampled(
        lambda second, shape=wobble(node.name + " age", 2, 400): 0.008 * abs(shape(second))), whole=False)
    store.constant("gpusnoop_discovery_slow_files", {}, 0)
    store.constant("gpusnoop_discovery_unreadable_processes", {}, 0)
    store.constant("gpusnoop_discovery_released_processes", {}, 0)
    for part, seconds in (("entry", 8.6e-7), ("stepped_entry", 9.4e-6), ("return", 8.4e-7), ("record", 4.1e-7), ("stack", 1.2e-6)):
        store.gauge("gpusnoop_probe_cost_seconds", {"mode": "session", "part": part}, [seconds] * count, whole=False)
    for feature in FEATURES:
        store.constant("gpusnoop_kernel_feature", {"feature": feature}, 1)
    everything = [sum(values) for values in zip(*events.values())] if events else [0.0] * count
    store.add("process_cpu_seconds_total", {}, everything, 8e-7, whole=False)
    memory = wobble(node.name + " memory", 0.05)
    for name, size in (("process_resident_memory_bytes", 31 * 2**20), ("process_virtual_memory_bytes", 420 * 2**20)):
        store.gauge(name, {}, clock.sampled(lambda second, size=size: size * memory(second)))
    for name, value in (("process_open_fds", 412), ("process_max_fds", 524288), ("process_threads", 11)):
        store.constant(name, {}, value)


def about_series(store):
    """How many label sets each family has, which the exporter shows of itself; last of all."""
    sizes = {}
    for head in store.series:
        name = head.partition("{")[0]
        family = store.catalog.family(name)
        if family and family.type == "histogram" and not name.endswith("_count"):
            continue
        if family and family.labels >= {"comm"}:
            sizes[family.name] = sizes.get(family.name, 0) + 1
    total = len(store.series) + 2 * len(sizes)
    for metric, size in sizes.items():
        store.constant("gpusnoop_series", {"metric": metric}, size)
    for metric in [metric for metric in sizes if metric.endswith(("launches_total", "syscalls_total"))]:
        store.constant("gpusnoop_series_folded_total", {"metric": metric}, 0, counter=True)
    store.constant("scrape_samples_scraped", {}, total)
