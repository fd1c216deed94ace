"""Workloads, for who owns one: from clusters through namespaces to pods or Slurm jobs, and to processes.

The recording rules say which pod a container is in (container_id:gpusnoop_workload:info); processes outside pods are there
as well, without namespace and pod.
"""

from . import tiles
from .common import (ERROR_COLORS, FAILED, FAILING_COLORS, FUNCTIONS, GROWTH_COLORS, HOST, LOWER_BOUND, MEMORY, NEEDS_DCGM,
                     WORKLOAD, dashboard, known_column, label_variable, node_columns, pid_column, pod_columns,
                     program_cell, program_columns, slow_calls_link)
from .host_panels import NEEDS_HOST_TIME, gpu_without_work, held_up, waits_for_gpu, what_takes_the_time
from .model import Row, link_to
from .panels import EACH_SECOND, Column, stat, table, timeseries
from .promql import (CONTAINER, NODE, ON_GPU, grown, growth_of_each, highest, launches, lines, own, rate, recorded, top, total, wide,
                     within, zero)

CHOSEN_ONES = ('comm=~"$comm"', 'slurm_job_id=~"$slurm_job_id"')
PODS = recorded("container_id:workload:info", 'namespace=~"$namespace"', 'pod=~"$pod"')
# How a workload is called: by its pod, or by its job; and by its program, of which a node may run several.
NAMED = "cluster, namespace, pod, slurm_job_id"
OWNER = "cluster, namespace, pod, comm"
LEGEND = "{{program}} {{slurm_job_id}} {{pod}} {{namespace}} {{cluster}}"
PROCESS = "namespace, pod, instance, comm, container_id, pid"
COPY_LEGEND = "{{direction}} {{mode}}"


def of_workloads(expression):
    """The expression, of series that have the labels of their container, with namespace and pod: of chosen workloads."""
    return f"{expression} * on ({CONTAINER}) group_left (namespace, pod) {PODS}"


def held(*matchers):
    return of_workloads(own("cuda_memory_outstanding_bytes", ON_GPU, *CHOSEN_ONES, *matchers))


def per_second(name, *matchers):
    return of_workloads(rate(name, *CHOSEN_ONES, *matchers))


OLD = of_workloads(own("cuda_memory_outstanding_older_than_bytes", 'age="1h"', *CHOSEN_ONES))
PROCESSES = of_workloads(own("process_info", *CHOSEN_ONES))
LAUNCHES = launches(per_second)
# What a known graph runs is among the launches.
UNKNOWN_GRAPHS = per_second("cuda_graph_launches_total", 'content="unknown"')
COPIED = per_second("cuda_memcpy_bytes_total")
ERRORS = per_second("cuda_api_errors_total", FAILED)
SLOW = per_second("function_slow_calls_total")


def _variables():
    pods = "container_id:gpusnoop_workload:info"
    return [label_variable("namespace", "Namespace", pods, "Namespaces of Kubernetes", prefix=""),
            label_variable("pod", "Pod", pods, "Pods with GPU processes", 'namespace=~"$namespace"', prefix=""),
            label_variable("slurm_job_id", "Slurm job", "process_info", "Jobs of Slurm (label slurm_job_id)"),
            label_variable("comm", "Program", "process_info", "Names of processes (label comm)",
                           'slurm_job_id=~"$slurm_job_id"')]


def _now():
    return Row(
        "Now",
        tiles.memory_held(held()),
        stat("GPUs used", "GPUs on which these programs hold memory.", "short",
             zero(f"count(sum by ({NODE}, gpu) ({held()}) > 0)")),
        tiles.launches(per_second),
        stat("Waiting for the GPU", "Share of the time of the threads that launch GPU work, over the last 5 minutes, in which they "
             "waited for the GPU, as below for each program. Near 100%, the GPU is the limit.", "percentunit",
             waits_for_gpu("", per_second), nothing=NEEDS_HOST_TIME),
        tiles.failing_calls(per_second),
        tiles.slow_calls(per_second),
        what_takes_the_time(per_second, height=6),
    )


def _numbers():
    """What each level has in its table."""
    return [Column("Value #A", "GPU memory", "bytes"),
            Column("Value #B", "largest growth", "bytes", colors=GROWTH_COLORS),
            Column("Value #C", "processes"),
            Column("Value #D", "launches/s", "short"),
            Column("Value #E", "copied/s", "binBps"),
            Column("Value #F", "failing/s", "short", colors=FAILING_COLORS),
            Column("Value #G", "slow/min", "short")]


def _level(labels, number):
    launches = f'{LAUNCHES} or label_replace({UNKNOWN_GRAPHS}, "of", "graphs", "", "")'
    return within(labels, top(number, total(labels, held())), highest(labels, growth_of_each(PROCESS, held())),
                  total(labels, PROCESSES), total(labels, launches), total(labels, COPIED), total(labels, ERRORS),
                  f"60 * {total(labels, SLOW)}")


def _levels():
    def deeper(title, **variables):
        return link_to(WORKLOAD, title, "instance", **variables)

    this_namespace = deeper("This namespace", namespace="${__data.fields.namespace}")
    this_pod = deeper("This pod", namespace="${__data.fields.namespace}", pod="${__data.fields.pod}")
    this_job = deeper("This job", slurm_job_id="${__data.fields['Slurm job']}")
    named_process = top(100, total(PROCESS, held()))
    return Row(
        "Namespaces, pods and jobs, processes",
        table("Namespaces", "What the pods of each namespace hold and do; the row without a namespace is what runs outside "
              "Kubernetes. Growth is the largest one of a single process in this range.",
              [Column("cluster", "cluster"), Column("namespace", "namespace", link=this_namespace), *_numbers()],
              *_level("cluster, namespace", 50), width=24, height=6, sort="GPU memory"),
        table("Pods and jobs", "Each pod, and outside pods each Slurm job. Growth is the largest one of a single process in "
              "this range.",
              [Column("cluster", "cluster"), Column("namespace", "namespace", link=this_namespace),
               Column("pod", "pod", link=this_pod), Column("slurm_job_id", "Slurm job", link=this_job), *_numbers()],
              *_level(NAMED, 50), width=24, height=7, sort="GPU memory"),
        table("Processes", "Processes that hold GPU memory, and how much more than at the start of the range. A program leads to "
              "its memory, a pid to its allocations with stacks. An attached profiler slows a program down.",
              [*node_columns(),
               *program_columns(program_cell(MEMORY, "Memory of this program")),
               *pod_columns(),
               pid_column(),
               Column("user", "user"),
               known_column(),
               Column("profiler", "profiler"),
               Column("Value #A", "GPU memory", "bytes"),
               Column("Value #B", "growth", "bytes", colors=GROWTH_COLORS)],
              *within(PROCESS, named_process, growth_of_each(PROCESS, held()),
                      f"max by ({wide(PROCESS)}, user, complete, profiler) ({PROCESSES})"),
              width=24, height=7, sort="GPU memory"),
    )


def _memory():
    return Row(
        "Memory",
        timeseries("GPU memory held by workload", "Allocated and not freed, of the ten largest. A line that only climbs is a "
                   "leak.", "bytes", (lines(10, total(OWNER, held())), LEGEND),
                   links=[link_to(MEMORY, "Memory and leaks", "instance")]),
        timeseries("Memory older than an hour, by workload", "Allocated more than an hour ago and not freed. If it climbs hour "
                   "after hour, the program leaks.", "bytes", (lines(10, total(OWNER, OLD)), LEGEND)),
        timeseries("GPU memory held by GPU", "Of the 16 GPUs on which these programs hold the most.", "bytes",
                   (lines(16, total("instance, gpu", held())), "{{node}} GPU {{gpu}} {{cluster}}")),
        timeseries("Utilization by GPU", "Of the GPUs on which these programs hold memory. Needs dcgm-exporter in the same "
                   "Prometheus.", "percentunit",
                   (lines(16, f"{recorded('gpu:device_utilization:ratio')}\n"
                              f"  and on ({NODE}, gpu) sum by ({NODE}, gpu) ({held()}) > 0"),
                    "{{node}} GPU {{gpu}} {{cluster}}"), nothing=NEEDS_DCGM),
    )


def _work():
    return Row(
        "Launches and copies",
        timeseries("Kernel launches by workload", "Launches by calls and by graphs, of the ten largest.", EACH_SECOND,
                   (lines(10, total(OWNER, LAUNCHES)), LEGEND)),
        timeseries("Copied by direction", "Bytes of successful copies per second; asynchronous copies count when they are "
                   "submitted.", "binBps", (total("direction, mode", COPIED), COPY_LEGEND), stack=True),
    )


def _calls():
    slow = of_workloads(grown("function_slow_calls_total", *CHOSEN_ONES))
    failed = of_workloads(grown("cuda_api_errors_total", FAILED, *CHOSEN_ONES))
    return Row(
        "Slow calls and errors",
        timeseries("Slow calls by workload", "Calls that took their function's slow_threshold or longer. Dots are single "
                   "calls.", EACH_SECOND, (lines(10, total(f"{OWNER}, function", SLOW)), f"{LEGEND} {{{{function}}}}"),
                   alarm="orange", exemplars=True, width=24),
        table("Slow functions", "Functions with the most slow calls in this range. A function leads to its last slow calls, with "
              "arguments and stacks.",
              [*node_columns(), *program_columns(), Column("library", "library"),
               Column("function", "function", link=slow_calls_link()),
               Column("Value", "slow calls")],
              top(20, f"round({total('instance, comm, library, function', slow)}) > 0"), width=24, height=6,
              nothing="no call is slow"),
        table("Failing CUDA calls by function", "CUDA calls that returned an error in this range.",
              [*node_columns(), *program_columns(), Column("function", "function"), Column("error", "error"),
               Column("Value", "calls", colors=ERROR_COLORS)],
              top(20, f"round({total('instance, comm, function, error', failed)}) > 0"), width=24, height=6,
              nothing="no call failed"),
    )


def _host():
    to_host = [link_to(HOST, "Host", "instance")]
    return Row(
        "Does the host keep the GPU waiting?",
        held_up(per_second, links=to_host),
        gpu_without_work(per_second, links=to_host),
    )


def _nccl():
    operations = "instance, comm, communicator, nranks, rank"
    return Row(
        "NCCL",
        timeseries("NCCL operations by rank", "Operations per second of each rank, in each communicator. A rank with fewer holds "
                   "up the others.", EACH_SECOND,
                   (lines(64, total(operations, per_second("nccl_operations_total"))),
                    "{{program}} {{slurm_job_id}} rank {{rank}} of {{nranks}} {{communicator}} {{node}} {{cluster}}"),
                   links=[link_to(FUNCTIONS, "NCCL stragglers", "instance")], width=24),
        collapsed=True,
    )


def make():
    return dashboard(
        WORKLOAD, "Workload",
        "What a pod or a job does with its GPUs, for its owner: from cluster and namespace to pods, Slurm jobs and "
        "processes.",
        [_now(), _levels(), _host(), _memory(), _calls(), _work(), _nccl()], variables=_variables(),
        annotations=[LOWER_BOUND])
