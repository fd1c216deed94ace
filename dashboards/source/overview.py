"""The fleet: what is wrong, and which node and which program to look at. What has many series, and what is over time, is of
recorded series, so that it is as quick for thousands of nodes; errors, of which the first one counts, and the numbers that
other dashboards have too, are read as they are."""

from . import alerts, tiles
from .common import (ERROR_COLORS, FAILED, FAILING_COLORS, FUNCTIONS, GROWTH_COLORS, MEMORY, NEEDS_DCGM, NEEDS_KUBE, OVERVIEW,
                     UP_MAPPING, WARNING_COLORS, WORKLOAD, dashboard, node_columns, pod_columns, program_cell,
                     program_columns)
from .model import Row, link_to
from .panels import EACH_SECOND, Column, stat, table, thresholds, timeseries
from .promql import CONTAINER, NODE_NAME, ON_GPU, count, growth, happened, lines, own, rate, recorded, top, total, within, zero

ALL_HELD = own("cuda_memory_outstanding_bytes", ON_GPU)
HELD = recorded("instance:cuda_memory_outstanding_bytes:sum", ON_GPU)
OLD = recorded("instance:cuda_memory_outstanding_older_than_bytes:sum", 'age="1h"')
LAUNCHES = recorded("instance:cuda_kernel_launches:rate5m")
# What a known graph runs is among the launches.
UNKNOWN_GRAPHS = recorded("instance:cuda_graph_launches:rate5m", tiles.UNKNOWN_GRAPHS)
COPIED = recorded("instance:cuda_memcpy_bytes:rate5m")
IDLE = recorded("program:idle_memory_bytes:sum")
# Of five minutes each.
IDLE_HOURS = f"sum_over_time({recorded('job:gpu_idle_held:sum')}[7d:5m]) / 12"
THERE = recorded("gpu:device_memory_total_bytes:sum")
USED = recorded("gpu:device_memory_used_bytes:sum")
UP = recorded("instance:up:min")
WORKLOADS = recorded("container_id:workload:info")
BY_PROGRAM = "instance, comm"


def _state():
    return Row(
        "Now",
        alerts.critical(trend=True, width=5, height=5),
        alerts.warnings(trend=True, width=5, height=5),
        stat("Nodes with alerts", "Nodes with a warning or critical alert.", "short",
             zero(f"count({alerts.of_nodes(alerts.ACT)})"), colors=WARNING_COLORS, trend=True, width=5, height=5),
        stat("GPUs held idle", "GPUs of which a program holds more than 1 GiB, and has not launched or copied anything for 30 "
             "minutes.", "short", zero(f"count({count('instance, gpu', IDLE)})"), colors=WARNING_COLORS, trend=True, width=5,
             height=5),
        stat("GPU memory in use", "Share of the memory of all GPUs. Needs dcgm-exporter in the same Prometheus.",
             "percentunit", f"{total('', USED)} / {total('', THERE)}", nothing=NEEDS_DCGM, trend=True, height=5),
        tiles.memory_held(ALL_HELD),
        tiles.processes(own("process_info"), width=3),
        tiles.failing_calls(rate),
        tiles.slow_calls(rate, width=3),
        tiles.exporters_down(),
        tiles.probes_failed(width=3),
        tiles.events_lost(width=3),
        alerts.to_act_on(width=24, height=9),
        table("GPU memory held idle", "Programs that hold more than 1 GiB of a GPU, and have not launched or copied anything for "
              "30 minutes.",
              [*node_columns(),
               Column("gpu", "GPU"),
               *program_columns(program_cell(MEMORY, "Memory of this program")),
               *pod_columns(),
               Column("Value", "held", "bytes")],
              top(20, total("instance, comm, gpu, namespace, pod",
                            f"{IDLE} * on ({CONTAINER}) group_left (namespace, pod) {WORKLOADS}")),
              width=24, height=4, nothing="no GPU is held idle"),
    )


def _nodes():
    critical, warnings = alerts.of_nodes(alerts.CRITICAL), alerts.of_nodes(alerts.WARNING)
    # By their alerts, then those that are down, and of all the others those that hold the most.
    worst = top(50, f"1000 * {critical} or {warnings} + 1 or (1 - {UP} > 0) or {total('instance', HELD)} / 1e15 or 0 * {UP}")
    return Row(
        "Nodes",
        table("Nodes", "The 50 nodes with the most alerts: how many alerts fire, whether the exporter answers, and what the "
              "node's programs hold and do. GPU memory is in use but not held where the exporter restarted: it does not see "
              "earlier allocations. Rates are over 5 minutes.",
              [*node_columns(),
               Column("Value #B", "critical", colors=ERROR_COLORS),
               Column("Value #C", "warnings", colors=WARNING_COLORS),
               Column("Value #D", "exporter", mappings=UP_MAPPING, colors=thresholds("red", 1, "green")),
               Column("Value #E", "memory held", "bytes"),
               Column("Value #F", "in use", "percentunit"),
               Column("Value #G", "held idle", "bytes", colors=WARNING_COLORS),
               Column("Value #H", "launches/s", "short"),
               Column("Value #I", "copied/s", "binBps"),
               Column("Value #J", "failing/s", "short", colors=FAILING_COLORS),
               Column("Value #K", "slow/min", "short")],
              *within("instance", worst, critical, warnings, total("instance", UP), total("instance", ALL_HELD),
                      f"{total('instance', USED)} / {total('instance', THERE)}", total("instance", IDLE),
                      total("instance", f'{LAUNCHES} or label_replace({UNKNOWN_GRAPHS}, "of", "graphs", "", "")'),
                      total("instance", COPIED), total("instance", rate("cuda_api_errors_total", FAILED)),
                      f"60 * {total('instance', rate('function_slow_calls_total'))}"),
              width=24, sort=("critical", "warnings")),
        timeseries("GPU memory held by node", "Allocated and not freed by the programs of each node, of the ten nodes that hold "
                   "the most.", "bytes", (lines(10, total("instance", HELD)), NODE_NAME)),
        timeseries("Kernel launches by node", "Launches by calls and by graphs, of the ten nodes with the most. If one node "
                   "launches less while the others go on, its job stalls.", EACH_SECOND,
                   (lines(10, total("instance", LAUNCHES)), NODE_NAME)),
    )


def _programs():
    to_memory = program_cell(MEMORY, "Memory of this program")
    old = top(20, total(BY_PROGRAM, OLD))
    by_namespace = "cluster, namespace"
    held = top(20, total(by_namespace, recorded("namespace:cuda_memory_outstanding_bytes:sum", 'namespace!=""')))
    return Row(
        "Programs and namespaces",
        table("Memory older than an hour, by program", "The programs that hold the most, with the growth in this range. Memory "
              "that a program needs for its whole life is included: look at the growth.",
              [*node_columns(),
               *program_columns(to_memory),
               Column("Value #A", "older than 1 h", "bytes"),
               Column("Value #B", "growth of all processes", "bytes", colors=GROWTH_COLORS)],
              *within(BY_PROGRAM, old, growth(BY_PROGRAM, OLD)), width=24, height=6,
              sort="growth of all processes"),
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
              width=24, height=6, sort="GPU memory", nothing=NEEDS_KUBE),
    )


def _idle():
    return Row(
        "GPUs held idle",
        table("GPU hours held idle, by owner, last 7 days", "The 20 programs that held memory of a GPU the longest without "
              "launching, copying or waiting there, from the second minute on; whatever range is shown here. "
              "Time in which a kernel may still run counts only if dcgm-exporter says that the GPU does nothing.",
              [Column("cluster", "cluster"),
               Column("namespace", "namespace"),
               *program_columns(),
               Column("Value", "GPU hours")],
              top(20, total("cluster, namespace, comm", f"{IDLE_HOURS}")),
              width=24, height=6, sort="GPU hours", nothing="no GPU was held idle"),
    )


def _functions():
    to_function = link_to(FUNCTIONS, "This function", "instance", function="${__data.fields.function:percentencode}")
    by_function = "comm, library, function"
    slow = top(10, f"60 * {total(by_function, recorded('job:function_slow_calls:rate5m'))} > 0")
    return Row(
        "Errors and slow functions",
        table("Failed CUDA calls", "CUDA calls that returned an error in this range, by error.",
              [*program_columns(),
               Column("function", "function"),
               Column("error", "error"),
               Column("Value", "calls", "short", colors=ERROR_COLORS)],
              top(20, happened("comm, function, error", "cuda_api_errors_total", FAILED)),
              width=24, height=6, nothing="no call failed"),
        table("Failed calls of other functions", "Calls of other traced functions that returned an error in this range.",
              [*program_columns(),
               Column("library", "library"),
               Column("function", "function", link=to_function),
               Column("error", "error"),
               Column("Value", "calls", "short", colors=ERROR_COLORS)],
              top(20, happened("comm, library, function, error", "function_errors_total")),
              width=24, height=6, nothing="no call failed"),
        table("Slow functions", "Functions with the most calls at or above their slow_threshold in the last 5 minutes, on all "
              "nodes of the selected clusters. Calls of functions that cost a program too much are observed part of the time: their "
              "rate is estimated from half an hour, or unknown.",
              [*program_columns(),
               Column("library", "library"),
               Column("function", "function", link=to_function),
               Column("Value #A", "slow/min", "short"),
               Column("Value #B", "calls/s", "short", nothing="unknown"),
               Column("Value #C", "threads inside")],
              *within(by_function, slow, total(by_function, recorded("job:function_calls:rate5m")),
                      total(by_function, recorded("job:function_duration_seconds:rate5m"))),
              width=24, height=6, sort="slow/min", nothing="no call is slow"),
    )


def _info():
    return Row(
        "Informational alerts",
        alerts.listed("Firing alerts of severity info", "Context for other alerts. Nobody is notified of them.",
                      severities={alerts.INFO: 1}, width=24),
        collapsed=True,
    )


def make():
    return dashboard(
        OVERVIEW, "Fleet",
        "All nodes with a gpusnoop_exporter: which alerts fire, what CUDA programs hold and do, and which of them "
        "to look at.",
        [_state(), _nodes(), _programs(), _idle(), _functions(), _info()])
