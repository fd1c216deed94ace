"""The fleet: which node and which program to look at."""

from .common import (ERROR_COLORS, FUNCTIONS, HEALTH, MEMORY, OVERVIEW, STATE_FAILED, UP_MAPPING, WARNING_COLORS,
                     dashboard, node_cell, program_cell)
from .model import Column, Row, link_to, stat, table, thresholds, timeseries
from .promql import highest, in_pod, increase, own, quantile, rate, top, total, up

BY_FUNCTION = "comm, library, function"
BY_PROCESS = "instance, comm, container_id, pid"
OLD = own("cuda_memory_outstanding_older_than_bytes", 'age="1h"')


def _state():
    to_health = [link_to(HEALTH, "Exporter health")]
    return Row(
        "Now",
        stat("Exporters", "How many nodes have an exporter that Prometheus scrapes.", "short",
             f"count({up()})", width=3, links=to_health),
        stat("Exporters down", "Exporters that did not answer the last scrape.", "short",
             f"count({up()}) - sum({up()})", width=3, colors=ERROR_COLORS, links=to_health),
        stat("Probes failed", "Enabled probes that an error keeps from working: each shows nothing on its node.",
             "short", total("", own("probe_state", STATE_FAILED)), width=3,
             colors=ERROR_COLORS, links=to_health),
        stat("GPU processes", "Running processes that have used CUDA.", "short",
             f"count({own('process_info')})", width=3),
        stat("Memory held", "Allocated and not freed, of all running processes, of every kind of "
             "memory.", "bytes", total("", own("cuda_memory_outstanding_bytes")), width=3),
        stat("Launches", "Kernel launches of all programs.", "ops",
             total("", rate("cuda_kernel_launches_total")), width=3),
        stat("Failing CUDA calls", "CUDA calls that return an error.", "ops",
             total("", rate("cuda_api_errors_total")), width=3, colors=WARNING_COLORS),
        stat("Events lost", "Calls that were entered and could not be counted: see the exporters' "
             "health.", "ops", total("", rate("probe_events_lost_total")), width=3,
             colors=WARNING_COLORS, links=to_health),
    )


def _nodes():
    by_node = "instance"
    return Row(
        "Nodes",
        table("Nodes", "Each node with an exporter: whether it answers, what its programs hold, and "
              "what they do.",
              [Column("instance", "node", link=node_cell()),
               Column("Value #A", "exporter", mappings=UP_MAPPING,
                      colors=thresholds("red", 1, "green")),
               Column("Value #B", "memory held", "bytes"),
               Column("Value #C", "launches/s", "ops"),
               Column("Value #D", "copied/s", "Bps"),
               Column("Value #E", "failing calls/s", "ops", colors=WARNING_COLORS),
               Column("Value #F", "slow calls/s", "ops", colors=WARNING_COLORS)],
              total(by_node, up()),
              total(by_node, own("cuda_memory_outstanding_bytes")),
              total(by_node, rate("cuda_kernel_launches_total")),
              total(by_node, rate("cuda_memcpy_bytes_total")),
              total(by_node, rate("cuda_api_errors_total")),
              total(by_node, rate("function_slow_calls_total")),
              width=24, sort="memory held"),
        timeseries("Memory held by node", "Allocated and not freed by the programs of each node, of "
                   "every kind of memory.", "bytes",
                   (top(10, total(by_node, own("cuda_memory_outstanding_bytes"))), "{{instance}}")),
        timeseries("Launches by node", "Kernel launches per second of each node's programs. A node "
                   "whose line falls while the others' go on has a job that stalls.", "ops",
                   (top(10, total(by_node, rate("cuda_kernel_launches_total"))), "{{instance}}")),
    )


def _leaks():
    to_memory = program_cell(MEMORY, "Memory of this program")
    return Row(
        "Top leaks",
        table("Old memory, by process", "Processes that hold the most memory that is older than an "
              "hour. What they need for their whole life is here as well: what grows is the leak. "
              "Namespaces and pods need kube-state-metrics in the same Prometheus.",
              [Column("instance", "node", link=node_cell()),
               Column("comm", "program", link=to_memory),
               Column("namespace", "namespace"),
               Column("pod", "pod"),
               Column("container_id", "container"),
               Column("pid", "pid"),
               Column("Value #A", "older than 1 h", "bytes"),
               Column("Value #B", "growth in this range", "bytes", colors=WARNING_COLORS)],
              in_pod(top(10, total(BY_PROCESS, OLD))),
              total(BY_PROCESS, f"delta({OLD}[$__range])"), width=14,
              sort="older than 1 h"),
        table("Not freed at exit", "Memory that programs had not freed when they ended. The driver "
              "takes it back: it shows programs that do not clean up, or that were killed.",
              [Column("instance", "node", link=node_cell()),
               Column("comm", "program", link=to_memory),
               Column("Value #A", "bytes", "bytes"),
               Column("Value #B", "allocations", "short")],
              top(10, total("instance, comm", increase("cuda_memory_unfreed_at_exit_bytes_total"))),
              total("instance, comm", increase("cuda_memory_unfreed_at_exit_allocations_total")),
              width=10,
              sort="bytes"),
    )


def _functions():
    to_function = link_to(FUNCTIONS, "This function", "instance",
                          function="${__data.fields.function}")
    return Row(
        "Slow functions and errors",
        table("Slow functions", "Functions with the most calls that took as long as their "
              "slow_threshold or longer; each call with arguments and stack is at "
              "/api/v1/slow_calls of its node.",
              [Column("comm", "program"),
               Column("library", "library"),
               Column("function", "function", link=to_function),
               Column("Value #A", "slow calls", "short"),
               Column("Value #B", "longest in the last minute", "s")],
              top(10, total(BY_FUNCTION, increase("function_slow_calls_total"))),
              highest(BY_FUNCTION, own("function_duration_max_seconds")),
              sort="slow calls"),
        timeseries("Slowest functions", "What 99 of 100 calls stay below, of the ten functions for "
                   "which that is the longest. Functions that wait for the GPU are long by nature.",
                   "s", (top(10, quantile(0.99, "library, function", "function_duration_seconds")),
                         "{{library}} {{function}}"), logarithmic=True),
        table("CUDA errors", "CUDA calls that returned an error, by the error's name.",
              [Column("comm", "program"),
               Column("function", "function"),
               Column("error", "error"),
               Column("Value", "calls", "short", colors=WARNING_COLORS)],
              top(20, total("comm, function, error", increase("cuda_api_errors_total")) + " > 0")),
        table("Errors of other functions", "Calls of traced functions that returned an error, by its "
              "name.",
              [Column("comm", "program"),
               Column("library", "library"),
               Column("function", "function", link=to_function),
               Column("error", "error"),
               Column("Value", "calls", "short", colors=WARNING_COLORS)],
              top(20, total("comm, library, function, error", increase("function_errors_total")) +
                  " > 0")),
    )


def _exporters():
    return Row(
        "Exporters",
        table("Exporters by node", "Whether each answered the last scrape: those that did not come first.",
              [Column("instance", "node", link=node_cell()),
               Column("job", "job"),
               Column("Value", "state", mappings=UP_MAPPING, colors=thresholds("red", 1, "green"))],
              up(), sort="state", descending=False),
        table("Versions", "What runs where.",
              [Column("version", "version"),
               Column("revision", "revision"),
               Column("libbpf", "libbpf"),
               Column("Value", "nodes", "short")],
              f"count by (version, revision, libbpf) ({own('build_info')})"),
    )


def make():
    return dashboard(
        OVERVIEW, "Fleet",
        "All nodes with a gpusnoop_exporter: what their CUDA programs hold and do, and which of them "
        "to look at.",
        [_state(), _nodes(), _leaks(), _functions(), _exporters()])
