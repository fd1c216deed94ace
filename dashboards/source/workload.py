"""Workloads, for who owns one: from clusters through namespaces to pods or Slurm jobs, and to processes.

The recording rules say which pod a container is in (container_id:gpusnoop_workload:info); processes outside pods are there
as well, without namespace and pod.
"""

from .common import (ERROR_COLORS, FAILING_COLORS, FUNCTIONS, HOST, LOWER_BOUND, MEMORY, NEEDS_DCGM, WARNING_COLORS,
                     WORKLOAD, dashboard, known_column, label_variable, node_columns, pid_column, pod_columns, program_cell,
                     program_columns, slow_calls_link)
from .host_panels import gpu_without_work, time_of_launching_threads
from .model import Row, link_to
from .panels import EACH_MINUTE, EACH_SECOND, Column, stat, table, timeseries
from .promql import CONTAINER, NODE, ON_GPU, grown, growth, lines, own, rate, recorded, top, total, wide, within, zero

CHOSEN_ONES = ('comm=~"$comm"', 'slurm_job_id=~"$slurm_job_id"')
PODS = recorded("container_id:workload:info", 'namespace=~"$namespace"', 'pod=~"$pod"')
# How a workload is called: by its pod, or by its job; and by its program, of which a node may run several.
NAMED = "cluster, namespace, pod, slurm_job_id"
OWNER = "cluster, namespace, pod, comm"
LEGEND = "{{cluster}} {{namespace}} {{pod}} {{slurm_job_id}} {{comm}} {{script}}"
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
LAUNCHES = per_second("cuda_kernel_launches_total")
GRAPHS = per_second("cuda_graph_launches_total")
# What a known graph runs is among the launches.
UNKNOWN_GRAPHS = per_second("cuda_graph_launches_total", 'content="unknown"')
COPIED = per_second("cuda_memcpy_bytes_total")
ERRORS = per_second("cuda_api_errors_total")
SLOW = per_second("function_slow_calls_total")
WAITS = per_second("function_duration_seconds_sum", 'function=~"cu(da)?(Ctx|Device|Stream|Event)Synchronize.*"')


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
        stat("GPU memory", "Allocated and not freed, without pinned host memory.", "bytes", zero(total("", held())),
             width=3),
        stat("GPUs used", "GPUs on which the workloads hold memory.", "short",
             zero(f"count(sum by ({NODE}, gpu) ({held()}) > 0)"), width=3),
        stat("GPU processes", "Running processes that have used CUDA.", "short", zero(total("", PROCESSES)), width=3),
        stat("Launches", "Kernels that are launched, by calls and by graphs. A graph whose content is unknown counts as "
             "one.", EACH_SECOND,
             zero(f"{total('', LAUNCHES)} + ({zero(total('', UNKNOWN_GRAPHS))})"), width=3),
        stat("Copied", "Bytes of successful copies.", "binBps", zero(total("", COPIED)), width=3),
        stat("Failing calls", "CUDA calls that returned an error.", EACH_SECOND, zero(total("", ERRORS)), width=3,
             colors=FAILING_COLORS),
        stat("Slow calls", "Calls that took as long as their function's slow_threshold, or longer.", EACH_MINUTE,
             zero(f"60 * {total('', SLOW)}"), width=3, colors=WARNING_COLORS),
        stat("Waiting", "Threads inside functions that wait for the GPU, on average.", "short",
             zero(total("", WAITS)), width=3),
    )


def _numbers():
    """What each level has in its table."""
    return [Column("Value #A", "GPU memory", "bytes"),
            Column("Value #B", "growth", "bytes", colors=WARNING_COLORS),
            Column("Value #C", "processes"),
            Column("Value #D", "launches/s", "short"),
            Column("Value #E", "copied/s", "binBps"),
            Column("Value #F", "failing/s", "short", colors=FAILING_COLORS),
            Column("Value #G", "slow/min", "short")]


def _level(labels, number):
    launches = f'{LAUNCHES} or label_replace({UNKNOWN_GRAPHS}, "of", "graphs", "", "")'
    return within(labels, top(number, total(labels, held())), growth(labels, held()),
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
        table("Namespaces", "What the pods of each namespace hold and do; the line without a namespace is what runs outside "
              "Kubernetes.",
              [Column("cluster", "cluster"), Column("namespace", "namespace", link=this_namespace), *_numbers()],
              *_level("cluster, namespace", 50), width=24, height=6, sort="GPU memory"),
        table("Pods and jobs", "Each pod, and outside pods each Slurm job.",
              [Column("cluster", "cluster"), Column("namespace", "namespace", link=this_namespace),
               Column("pod", "pod", link=this_pod), Column("slurm_job_id", "Slurm job", link=this_job), *_numbers()],
              *_level(NAMED, 50), width=24, height=8, sort="GPU memory"),
        table("Processes", "Each process that holds memory of a GPU. A program leads to its memory, a pid to its allocations "
              "with their stacks. A profiler makes a program slow. Old memory is older than an hour, and of all kinds, pinned host memory too.",
              [*node_columns(),
               *program_columns(program_cell(MEMORY, "Memory of this program")),
               *pod_columns(),
               pid_column(),
               Column("user", "user"),
               known_column(),
               Column("profiler", "profiler"),
               Column("Value #A", "GPU memory", "bytes"),
               Column("Value #B", "old, all kinds", "bytes")],
              *within(PROCESS, named_process, total(PROCESS, OLD),
                      f"max by ({wide(PROCESS)}, user, complete, profiler) ({PROCESSES})"),
              width=24, height=8, sort="GPU memory"),
    )


def _memory():
    return Row(
        "Memory",
        timeseries("GPU memory held by workload", "Allocated and not freed. A line that only climbs is a leak.", "bytes",
                   (lines(10, total(OWNER, held())), LEGEND), links=[link_to(MEMORY, "Memory and leaks", "instance")]),
        timeseries("Memory older than an hour", "What is held and was allocated more than an hour ago: where it climbs hour "
                   "after hour, nothing is given back.", "bytes", (lines(10, total(OWNER, OLD)), LEGEND)),
        timeseries("Memory held by GPU", "By the GPUs of the nodes.", "bytes",
                   (lines(16, total("instance, gpu", held())), "{{cluster}} {{instance}} gpu {{gpu}}")),
        timeseries("Utilization of the GPUs used", "What DCGM measures of the GPUs on which the workloads hold memory. Needs "
                   "dcgm-exporter in the same Prometheus.", "percentunit",
                   (lines(16, f"{recorded('gpu:device_utilization:ratio')}\n"
                              f"  and on ({NODE}, gpu) sum by ({NODE}, gpu) ({held()}) > 0"),
                    "{{cluster}} {{instance}} gpu {{gpu}}"), nothing=NEEDS_DCGM),
    )


def _work():
    return Row(
        "Launches and copies",
        timeseries("Launches by workload", "Kernels per second that are launched, by calls and by graphs.", EACH_SECOND,
                   (lines(10, total(OWNER, LAUNCHES)), LEGEND), width=8),
        timeseries("Graph launches by workload", "Launches of CUDA graphs per second.", EACH_SECOND,
                   (lines(10, total(OWNER, GRAPHS)), LEGEND), width=8),
        timeseries("Copied by direction", "Bytes of successful copies per second; of asynchronous ones when they were "
                   "submitted.", "binBps", (total("direction, mode", COPIED), COPY_LEGEND), width=8, stack=True),
    )


def _calls():
    share = (f"{total(OWNER, WAITS)}\n  / "
             f"({total(OWNER, PROCESSES)} > 0)")
    slow = of_workloads(grown("function_slow_calls_total", *CHOSEN_ONES))
    return Row(
        "Waits, slow calls and errors",
        timeseries("Waiting for the GPU, per process", "Threads inside functions that wait for the GPU, for each process: at "
                   "1, a thread of each always waits, and the GPU is what the program is as fast as.", "short",
                   (lines(10, share), LEGEND), width=8),
        timeseries("Slow calls by workload", "Calls that took as long as their function's slow_threshold, or longer. The dots "
                   "are single calls.", EACH_SECOND, (lines(10, total(f"{OWNER}, function", SLOW)), f"{LEGEND} {{{{function}}}}"),
                   width=8, shade="orange", exemplars=True),
        timeseries("Failing calls by error", "CUDA calls that returned an error.", EACH_SECOND,
                   (lines(10, total(f"{OWNER}, error", ERRORS)), f"{LEGEND} {{{{error}}}}"), width=8, shade="red"),
        table("Slow functions", "With the most slow calls in this range; a function leads to its last slow calls, with "
              "arguments and stack, at the exporter of its node.",
              [*node_columns(), *program_columns(), Column("library", "library"),
               Column("function", "function", link=slow_calls_link()),
               Column("Value", "slow calls", colors=WARNING_COLORS)],
              top(20, total("instance, comm, library, function", slow) + " > 0"), nothing="no call is slow"),
        table("Failing calls by function", "CUDA calls that returned an error in this range.",
              [*node_columns(), *program_columns(), Column("function", "function"), Column("error", "error"),
               Column("Value", "calls", colors=ERROR_COLORS)],
              top(20, total("instance, comm, function, error", of_workloads(grown("cuda_api_errors_total", *CHOSEN_ONES))) +
                  " > 0"), nothing="no call has failed"),
    )


def _host():
    to_host = [link_to(HOST, "Host", "instance")]
    return Row(
        "Is it the host?",
        time_of_launching_threads(per_second, width=12, links=to_host),
        gpu_without_work(per_second, width=12, links=to_host),
    )


def _nccl():
    operations = "instance, comm, communicator, nranks, rank"
    return Row(
        "NCCL",
        timeseries("NCCL: operations by rank", "Operations per second of each rank, in each communicator.", EACH_SECOND,
                   (lines(64, total(operations, per_second("nccl_operations_total"))),
                    "{{script}} {{slurm_job_id}} rank {{rank}} of {{nranks}} in {{communicator}} on {{cluster}} {{instance}}"),
                   links=[link_to(FUNCTIONS, "NCCL and its stragglers", "instance")]),
        timeseries("NCCL: bytes by operation", "What the operations were asked to communicate.", "binBps",
                   (lines(10, total("function, datatype", per_second("nccl_bytes_total"))), "{{function}} {{datatype}}")),
        collapsed=True,
    )


def make():
    return dashboard(
        WORKLOAD, "Workload",
        "What a pod or a job does with its GPUs, for who owns it: from cluster and namespace to pods, Slurm jobs and "
        "processes.",
        [_now(), _levels(), _host(), _memory(), _work(), _calls(), _nccl()], variables=_variables(),
        annotations=[LOWER_BOUND])
