"""One node: its alerts, what its programs wait for, its processes and its GPUs."""

from . import alerts, tiles
from .common import (COPIES, ERROR_COLORS, FAILED, FUNCTIONS, GPUS, HANGING_COLORS, HOST, KERNEL, MEMORY, NEEDS_DCGM, NEEDS_KUBE,
                     NODE, UP_MAPPING, WORKLOAD, dashboard, in_flight_link, known_column, node_columns, pid_column, pod_columns,
                     program_cell, program_columns)
from .host_panels import gpu_without_work, held_up, what_takes_the_time
from .model import Row, link_to
from .panels import EACH_SECOND, Column, stat, table, thresholds, timeseries
from .promql import NODE as BY_NODE
from .promql import (GPU, NODE_NAME, ON_GPU, PODS, PROGRAM_NAME, count, grown, happened, highest, in_pod, launches, lines, own,
                     quantile, rate, top, total, up, within, zero)

# The UUID is what DCGM and we both know a GPU by; each of them counts GPUs in its own way.
GPU_BY_UUID = f"max by (uuid, {BY_NODE}, gpu) ({own('gpu_info', GPU)})"
BY_PROCESS = "instance, comm, container_id, pid"
IN_A_POD = 'pod_uid!=""'
HARDWARE = 'class="hardware"'


def dcgm(family):
    """A family of dcgm-exporter, with our labels of the same GPU: of the chosen nodes only."""
    by_uuid = f'max by (uuid) (label_replace({family}, "uuid", "$1", "UUID", "(.+)"))'
    return f"{GPU_BY_UUID}\n  * on (uuid) group_left () {by_uuid}"


def _state():
    processes = top(200, highest(f"{BY_PROCESS}, user, systemd_unit, complete, profiler", own("process_info")))
    return Row(
        "Now",
        alerts.critical(),
        alerts.warnings(),
        stat("Hardware errors", "Xids of class hardware that the NVIDIA driver reported in this range.", "short",
             zero(total("", grown("gpu_xid_total", HARDWARE, GPU))), colors=ERROR_COLORS),
        stat("Exporter", "Whether the exporter answered the last scrape.", "short",
             (up(), NODE_NAME), mappings=UP_MAPPING, colors=thresholds("red", 1, "green")),
        tiles.memory_held(own("cuda_memory_outstanding_bytes", ON_GPU, GPU)),
        tiles.processes(own("process_info")),
        alerts.to_act_on(nodes=[Column("instance", "node")], width=24, height=7),
        what_takes_the_time(rate, height=5),
        table("Processes", "Running processes that have used CUDA, and the GPU memory that they hold. A program leads to its "
              "memory, a pid to its allocations with stacks, an oldest call to the calls that have not returned. Memory is seen in "
              "part if the process ran before the exporter started. An attached profiler slows a program down. Namespaces and pods "
              "need kube-state-metrics.",
              [Column("instance", "node"),
               *program_columns(program_cell(MEMORY, "Memory of this program")),
               pid_column(),
               *pod_columns(),
               Column("user", "user"),
               Column("systemd_unit", "unit"),
               known_column(),
               Column("profiler", "profiler"),
               Column("Value #B", "GPU memory", "bytes"),
               Column("Value #C", "allocations", "short"),
               Column("Value #D", "oldest call", "s", colors=HANGING_COLORS, link=in_flight_link(), nothing="")],
              in_pod(processes),
              *within(BY_PROCESS, processes,
                      total(BY_PROCESS, own("cuda_memory_outstanding_bytes", ON_GPU, GPU)),
                      total(BY_PROCESS, own("cuda_memory_outstanding_allocations", GPU)),
                      highest(BY_PROCESS, own("oldest_call_seconds")))[1:],
              width=24, height=7, sort="GPU memory"),
    )


def _gpus():
    held = total("instance, gpu", own("cuda_memory_outstanding_bytes", ON_GPU, GPU))
    to_kernel = [link_to(KERNEL, "Kernel side", "instance")]
    return Row(
        "GPUs",
        table("Xids", "Errors that the NVIDIA driver reported in this range, with the program that it names. /api/v1/xids of the "
              "node's exporter has the latest ones with their text.",
              [Column("instance", "node"), Column("gpu", "GPU"), Column("device", "PCI address"), Column("xid", "Xid"),
               Column("class", "class"), Column("comm", "program"), Column("Value", "reports", "short")],
              top(50, happened("instance, gpu, device, xid, class, comm", "gpu_xid_total", GPU)), width=14,
              height=5, nothing="no Xid in this range"),
        timeseries("NVSwitch errors (SXids)", "Errors of NVSwitches that the NVIDIA driver reports.", EACH_SECOND,
                   (total("device, sxid, severity", rate("nvswitch_sxid_total")), "{{device}} SXid {{sxid}} {{severity}}"),
                   width=10, height=5, alarm="red", links=to_kernel, nothing="no SXid in this range"),
        timeseries("Memory: held by programs and in use, by GPU",
                   "Memory that programs have allocated, and memory in use by dcgm-exporter. The difference is CUDA contexts, "
                   "code, and allocations that no probe sees.", "bytes",
                   (held, "GPU {{gpu}} held {{node}}"),
                   (f"1048576 * {dcgm('DCGM_FI_DEV_FB_USED')}", "GPU {{gpu}} in use {{node}}")),
        timeseries("Utilization by GPU", "Measured by dcgm-exporter. Busy without launches: a long kernel or a graph. Launches "
                   "without utilization: kernels that are too short.",
                   "percentunit", (f"{dcgm('DCGM_FI_DEV_GPU_UTIL')} / 100", "GPU {{gpu}} {{node}}"), nothing=NEEDS_DCGM),
        timeseries("Launches by GPU", "Launches of kernels and of graphs.", EACH_SECOND,
                   (total("instance, gpu", launches(rate, GPU)), "GPU {{gpu}} kernels {{node}}"),
                   (total("instance, gpu", rate("cuda_graph_launches_total", GPU)), "GPU {{gpu}} graphs {{node}}"), width=24, height=6),
        table("GPUs by index", "The model, UUID and PCI address of each GPU index.",
              [*node_columns(), Column("gpu", "GPU"), Column("name", "model"),
               Column("uuid", "UUID"), Column("pci_bus_id", "PCI address")],
              top(200, own("gpu_info", GPU)), width=24, height=6, sort="GPU", descending=False),
    )


def _pods():
    by_pod = "namespace, pod"
    of_process = (f"max by ({BY_NODE}, pid, pod_uid) ({own('process_info', IN_A_POD)})\n"
                  f"  * on (pod_uid) group_left (namespace, pod) {PODS}")
    held = total("instance, pid", own("cuda_memory_outstanding_bytes", ON_GPU, GPU))
    return Row(
        "Pods, with kube-state-metrics",
        timeseries("GPU memory held by pod", "Allocated and not freed, by the pod that the process runs in.", "bytes",
                   (f"sum by ({by_pod}) (\n  {held}\n  * on ({BY_NODE}, pid) group_left ({by_pod}) (\n  "
                    f"{of_process}))", "{{pod}} {{namespace}}"), nothing=NEEDS_KUBE),
        table("GPU processes by pod", "How many GPU processes each pod runs.",
              [Column("namespace", "namespace"),
               Column("pod", "pod", link=link_to(WORKLOAD, "This pod", namespace="${__data.fields.namespace}",
                                                 pod="${__data.fields.pod}")),
               *node_columns(),
               Column("Value", "processes", "short")],
              top(200, count("instance, namespace, pod", f"\n  {of_process}")), nothing=NEEDS_KUBE),
        collapsed=True,
    )


def _cuda():
    return Row(
        "Memory, copies and launches",
        timeseries("GPU memory held by process", "Allocated and not freed, of the ten processes that hold the most.", "bytes",
                   (lines(10, total("comm, instance, pid", own("cuda_memory_outstanding_bytes", ON_GPU, GPU))),
                    f"{PROGRAM_NAME} pid {{{{pid}}}}"),
                   links=[link_to(MEMORY, "Memory and leaks", "instance")]),
        timeseries("Kernel launches by program", "Launches by calls and by graphs.", EACH_SECOND,
                   (lines(10, total("comm", launches(rate))), PROGRAM_NAME)),
        timeseries("Copied by direction", "Bytes of successful copies per second.", "binBps",
                   (total("direction", rate("cuda_memcpy_bytes_total")), "{{direction}}"), stack=True,
                   links=[link_to(COPIES, "Copies and launches", "instance")]),
        timeseries("Failing CUDA calls", "CUDA calls that returned an error, by program, function and error.", EACH_SECOND,
                   (lines(10, total("comm, function, error", rate("cuda_api_errors_total", FAILED))),
                    f"{PROGRAM_NAME} {{{{function}}}} {{{{error}}}}"), alarm="red"),
    )


def _host():
    to_host = [link_to(HOST, "Host", "instance")]
    return Row(
        "Does the host keep the GPU waiting?",
        held_up(rate, links=to_host),
        gpu_without_work(rate, links=to_host),
    )


def _func():
    to_functions = [link_to(FUNCTIONS, "Functions", "instance")]
    return Row(
        "Traced functions",
        timeseries("Duration of calls, p99", "99 of 100 calls are shorter; of the ten slowest functions.", "s",
                   (lines(10, quantile(0.99, "library, function", "function_duration_seconds")),
                    "{{function}}"), logarithmic=True, links=to_functions),
        timeseries("Slow and failing calls", "Calls at or above their function's slow_threshold, and calls that returned an "
                   "error.", EACH_SECOND,
                   (lines(10, total("library, function", rate("function_slow_calls_total"))),
                    "{{function}} slow"),
                   (lines(10, total("library, function, error", rate("function_errors_total"))),
                    "{{function}} {{error}}"), alarm="orange", links=to_functions),
    )


def make():
    return dashboard(
        NODE, "Node",
        "One node, or several: its alerts, what its programs wait for, its processes and its GPUs.",
        [_state(), _gpus(), _host(), _cuda(), _func(), _pods()], variables=[GPUS])
