"""The fleet: what is wrong, and which node and which program to look at. Of recorded series, so that it is as quick for
thousands of nodes; but errors, of which the first one counts, are read as they are."""

from .common import (ERROR_COLORS, FAILING_COLORS, FIRING, FUNCTIONS, HEALTH, LOST_COLORS, MEMORY, NEEDS_DCGM,
                     NEEDS_KUBE, OVERVIEW, SEVERITY_COLORS, SEVERITY_MAPPING, UP_MAPPING, WARNING_COLORS, WORKLOAD,
                     alert_cell, dashboard, node_columns, pod_columns, program_cell, program_columns)
from .model import Row, link_to
from .panels import EACH_MINUTE, EACH_SECOND, Column, stat, table, thresholds, timeseries
from .promql import CONTAINER, ON_GPU, count, grown, growth, lines, own, recorded, top, total, within, zero

HELD = recorded("instance:cuda_memory_outstanding_bytes:sum", ON_GPU)
OLD = recorded("instance:cuda_memory_outstanding_older_than_bytes:sum", 'age="1h"')
LAUNCHES = recorded("instance:cuda_kernel_launches:rate5m")
# What a known graph runs is among the launches.
UNKNOWN_GRAPHS = recorded("instance:cuda_graph_launches:rate5m", 'content="unknown"')
COPIED = recorded("instance:cuda_memcpy_bytes:rate5m")
ERRORS = recorded("instance:cuda_api_errors:rate5m")
SLOW = recorded("instance:function_slow_calls:rate5m")
IDLE = recorded("program:idle_memory_bytes:sum")
THERE = recorded("gpu:device_memory_total_bytes:sum")
USED = recorded("gpu:device_memory_used_bytes:sum")
UP = recorded("instance:up:min")
WORKLOADS = recorded("container_id:workload:info")
BY_PROGRAM = "instance, comm"


def firing(*matchers):
    return FIRING.replace("}", "".join(f", {one}" for one in matchers) + "}")


# Alerts at which somebody looks, and that are about a node.
OF_A_NODE = firing('severity!="info"', 'instance!=""')


def _state():
    to_health = [link_to(HEALTH, "Exporter health")]
    return Row(
        "Now",
        stat("Alerts", "Alerts that fire, of every severity. They are listed below.", "short",
             zero(f"count({FIRING})"), colors=WARNING_COLORS, trend=True, height=5),
        stat("Nodes with trouble", "Nodes of which an alert fires that is more than a note.", "short",
             zero(f"count({count('instance', OF_A_NODE)})"), colors=ERROR_COLORS, trend=True, height=5),
        stat("Down or failed", "Exporters that did not answer the last scrape, and probes that an error keeps from "
             "working.", "short",
             f"({zero(f'count({UP} == 0)')}) + ({zero(total('', recorded('instance:probes_failed:sum')))})",
             colors=ERROR_COLORS, links=to_health, trend=True, height=5),
        stat("Idle holders", "Programs that hold more than 1 GiB of a GPU, and have given it nothing to do for half an hour.",
             "short", zero(f"count({IDLE})"), colors=WARNING_COLORS, trend=True, height=5),
        stat("GPU memory held", "Allocated and not freed by all running processes, without pinned host memory.", "bytes",
             zero(total("", HELD)), trend=True, height=5),
        stat("Memory in use", "Of the memory of all GPUs, what is in use. Needs dcgm-exporter in the same "
             "Prometheus.", "percentunit", f"{total('', USED)} / {total('', THERE)}", nothing=NEEDS_DCGM, trend=True,
             height=5),
        stat("GPU processes", "Running processes that have used CUDA.", "short",
             zero(total("", recorded("instance:processes:count")))),
        stat("Launches", "Kernels that all programs launch, by calls and by graphs. A graph whose content is unknown "
             "counts as one.", EACH_SECOND,
             zero(f"{total('', LAUNCHES)} + ({zero(total('', UNKNOWN_GRAPHS))})")),
        stat("Copied", "Bytes of successful copies.", "binBps", zero(total("", COPIED))),
        stat("Failing calls", "CUDA calls that return an error.", EACH_SECOND, zero(total("", ERRORS)), colors=FAILING_COLORS),
        stat("Slow calls", "Calls of functions that took as long as their slow_threshold or longer.", EACH_MINUTE,
             zero(f"60 * {total('', SLOW)}")),
        stat("Events lost", "Of the calls that were entered, those that could not be counted: see the exporters' "
             "health.", "percentunit",
             zero(f"{total('', recorded('instance:probe_events_lost:rate5m'))} / "
                  f"({total('', recorded('instance:probe_entries:rate5m'))} > 0)"), colors=LOST_COLORS,
             links=to_health),
        table("Alerts that fire", "The worst first; each leads to its runbook.",
              [Column("Value", "severity", mappings=SEVERITY_MAPPING, colors=SEVERITY_COLORS, align="left"),
               Column("alertname", "alert", link=alert_cell()),
               *node_columns(),
               *program_columns(),
               *pod_columns(),
               Column("pid", "pid"),
               Column("gpu", "gpu")],
              top(50, f"3 * {firing(CRITICAL)} or 2 * {firing(WARNING)} or 1 * {firing(INFO)}"),
              width=24, height=8, sort="severity", nothing="no alert fires"),
        table("Memory held and nothing done", "Programs that hold more than 1 GiB of a GPU, and have neither launched nor "
              "copied anything for half an hour.",
              [*node_columns(),
               Column("gpu", "gpu"),
               *program_columns(program_cell(MEMORY, "Memory of this program")),
               *pod_columns(),
               Column("Value", "held", "bytes")],
              top(20, total("instance, comm, gpu, namespace, pod",
                            f"{IDLE} * on ({CONTAINER}) group_left (namespace, pod) {WORKLOADS}")),
              width=24, height=5, nothing="no GPU is held idle"),
    )


CRITICAL, WARNING, INFO = 'severity="critical"', 'severity="warning"', 'severity!~"critical|warning"'


def _nodes():
    trouble = count("instance", OF_A_NODE)
    # By the number of alerts, then those that are down, and of all the others those that hold the most.
    worst = top(50, f"({trouble} + 1) or (1 - {UP} > 0) or {total('instance', HELD)} / 1e15 or 0 * {UP}")
    return Row(
        "Nodes",
        table("Nodes", "The fifty nodes with the most alerts: whether the exporter answers, what its programs hold, and "
              "what they do.",
              [*node_columns(),
               Column("Value #B", "alerts", colors=WARNING_COLORS),
               Column("Value #C", "exporter", mappings=UP_MAPPING, colors=thresholds("red", 1, "green")),
               Column("Value #D", "GPU memory", "bytes"),
               Column("Value #E", "in use", "percentunit"),
               Column("Value #F", "held idle", "bytes", colors=WARNING_COLORS),
               Column("Value #G", "launches/s", "short"),
               Column("Value #H", "copied/s", "binBps"),
               Column("Value #I", "failing/s", "short", colors=FAILING_COLORS),
               Column("Value #J", "slow/min", "short")],
              *within("instance", worst, trouble, total("instance", UP), total("instance", HELD),
                      f"{total('instance', USED)} / {total('instance', THERE)}", total("instance", IDLE),
                      total("instance", f'{LAUNCHES} or label_replace({UNKNOWN_GRAPHS}, "of", "graphs", "", "")'),
                      total("instance", COPIED), total("instance", ERRORS), f"60 * {total('instance', SLOW)}"),
              width=24, sort="alerts"),
        timeseries("GPU memory held by node", "Allocated and not freed by the programs of each node, of the ten that hold "
                   "the most.", "bytes", (lines(10, total("instance", HELD)), "{{cluster}} {{instance}}")),
        timeseries("Launches by node", "Kernels per second that each node's programs launch, by calls and by graphs. A node "
                   "whose line falls while the others' go on has a job that stalls.", EACH_SECOND,
                   (lines(10, total("instance", LAUNCHES)), "{{cluster}} {{instance}}")),
    )


def _programs():
    to_memory = program_cell(MEMORY, "Memory of this program")
    old = top(20, total(BY_PROGRAM, OLD))
    by_namespace = "cluster, namespace"
    held = top(20, total(by_namespace, recorded("namespace:cuda_memory_outstanding_bytes:sum", 'namespace!=""')))
    return Row(
        "Programs and namespaces",
        table("Old memory, by program", "Programs that hold the most memory that is older than an hour. What they need for "
              "their whole life is here as well: what grows is the leak.",
              [*node_columns(),
               *program_columns(to_memory),
               Column("Value #A", "older than 1 h", "bytes"),
               Column("Value #B", "growth", "bytes", colors=WARNING_COLORS)],
              *within(BY_PROGRAM, old, growth(BY_PROGRAM, OLD)), width=14, sort="growth"),
        table("Namespaces", "What the pods of each namespace hold and do. Needs kube-state-metrics in the same Prometheus.",
              [Column("cluster", "cluster"),
               Column("namespace", "namespace", link=link_to(WORKLOAD, "This namespace",
                                                             namespace="${__data.fields.namespace}")),
               Column("Value #A", "GPU memory", "bytes"),
               Column("Value #B", "launches/s", "short"),
               Column("Value #C", "copied/s", "binBps"),
               Column("Value #D", "failing/s", "short", colors=FAILING_COLORS)],
              *within(by_namespace, held,
                      *(total(by_namespace, recorded(f"namespace:{name}:rate5m"))
                        for name in ("cuda_kernel_launches", "cuda_memcpy_bytes", "cuda_api_errors"))),
              width=10, sort="GPU memory", nothing=NEEDS_KUBE),
    )


def _functions():
    to_function = link_to(FUNCTIONS, "This function", "instance", function="${__data.fields.function:percentencode}")
    by_function = "comm, library, function"
    slow = top(10, f"60 * {total(by_function, recorded('job:function_slow_calls:rate5m'))} > 0")
    return Row(
        "Slow functions and errors",
        table("Slow functions", "Functions with the most calls that took as long as their slow_threshold or longer, in the "
              "last five minutes, on all nodes of the chosen clusters.",
              [*program_columns(),
               Column("library", "library"),
               Column("function", "function", link=to_function),
               Column("Value #A", "slow/min", "short"),
               Column("Value #B", "calls/s", "short"),
               Column("Value #C", "threads inside")],
              *within(by_function, slow, total(by_function, recorded("job:function_calls:rate5m")),
                      total(by_function, recorded("job:function_duration_seconds:rate5m"))),
              sort="slow/min", nothing="no call is slow"),
        timeseries("Slowest functions, p99", "What 99 of 100 calls stay below, of the ten functions for "
                   "which that is the longest. Functions that wait for the GPU are long by nature.", "s",
                   (lines(10, "histogram_quantile(0.99, sum by (cluster, library, function, le) "
                          f"({recorded('job:function_duration_seconds_bucket:rate5m')}))"),
                    "{{cluster}} {{library}} {{function}}"), logarithmic=True),
        table("CUDA errors", "CUDA calls that returned an error in this range, by the error's name.",
              [*program_columns(),
               Column("function", "function"),
               Column("error", "error"),
               Column("Value", "calls", "short", colors=ERROR_COLORS)],
              top(20, total("comm, function, error", grown("cuda_api_errors_total")) + " > 0"),
              nothing="no call has failed"),
        table("Errors of other functions", "Calls of traced functions that returned an error in this range, by its name.",
              [*program_columns(),
               Column("library", "library"),
               Column("function", "function", link=to_function),
               Column("error", "error"),
               Column("Value", "calls", "short", colors=ERROR_COLORS)],
              top(20, total("comm, library, function, error", grown("function_errors_total")) + " > 0"),
              nothing="no call has failed"),
    )


def _exporters():
    return Row(
        "Exporters",
        table("Exporters by node", "Whether each answered the last scrape: those that did not come first.",
              [*node_columns(),
               Column("job", "job"),
               Column("Value", "state", mappings=UP_MAPPING, colors=thresholds("red", 1, "green"))],
              f"bottomk(100, {UP})", sort="state", descending=False),
        table("Versions", "What runs where.",
              [Column("version", "version"),
               Column("revision", "revision"),
               Column("libbpf", "libbpf"),
               Column("Value", "nodes", "short")],
              f"count by (version, revision, libbpf) ({own('build_info')})"),
        collapsed=True,
    )


def make():
    return dashboard(
        OVERVIEW, "Fleet",
        "All nodes with a gpusnoop_exporter: which alerts fire, what CUDA programs hold and do, and which of them "
        "to look at.",
        [_state(), _nodes(), _programs(), _functions(), _exporters()])
