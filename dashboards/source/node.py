"""One node: a row for each probe."""

from .common import (COPIES, FUNCTIONS, GPUS, HOST, KERNEL, MEMORY, NEEDS_DCGM, NEEDS_KUBE, NODE, UP_MAPPING, WARNING_COLORS,
                     WORKLOAD, dashboard, known_column, node_columns, pid_column, pod_columns, program_cell, program_columns)
from .host_panels import gpu_without_work, time_of_launching_threads
from .model import Row, link_to
from .panels import EACH_SECOND, Column, stat, table, thresholds, timeseries
from .promql import NODE as BY_NODE
from .promql import (GPU, ON_GPU, PODS, PROGRAM_NAME, count, grown, highest, in_pod, lines, own, process, quantile, rate, top,
                     total, up, within, zero)

# The UUID is what DCGM and we both know a GPU by; each of them counts GPUs in its own way.
GPU_BY_UUID = f"max by (uuid, {BY_NODE}, gpu) ({own('gpu_info', GPU)})"
BY_PROCESS = "instance, comm, container_id, pid"
IN_A_POD = 'pod_uid!=""'


def dcgm(family):
    """A family of dcgm-exporter, with our labels of the same GPU: of the chosen nodes only."""
    by_uuid = f'max by (uuid) (label_replace({family}, "uuid", "$1", "UUID", "(.+)"))'
    return f"{GPU_BY_UUID}\n  * on (uuid) group_left () {by_uuid}"


def _state():
    processes = top(200, highest(f"{BY_PROCESS}, user, systemd_unit, exe, complete, profiler", own("process_info")))
    return Row(
        "Node",
        stat("Exporter", "Whether the exporter answered the last scrape.", "short",
             (up(), "{{cluster}} {{instance}}"), width=4, mappings=UP_MAPPING,
             colors=thresholds("red", 1, "green")),
        stat("GPUs", "GPUs that the NVIDIA driver lists.", "short", zero(f"count({own('gpu_info', GPU)})")),
        stat("GPU processes", "Running processes that have used CUDA.", "short",
             zero(f"count({own('process_info')})")),
        stat("GPU memory held", "Allocated and not freed, without pinned host memory.", "bytes",
             zero(total("", own("cuda_memory_outstanding_bytes", ON_GPU, GPU)))),
        stat("CPU of the exporter", "CPU time that the exporter itself takes: 100% is one core.",
             "percentunit", zero(total("", process("process_cpu_seconds_total", rated=True)))),
        stat("Events lost", "Calls that were entered and could not be counted.", EACH_SECOND,
             zero(total("", rate("probe_events_lost_total"))), colors=WARNING_COLORS),
        table("Processes", "Running processes that have used CUDA: what each is, and what it holds on GPUs. A pid leads to "
              "its allocations with their stacks. A profiler makes a program slow. "
              "Namespaces and pods need kube-state-metrics in the same Prometheus.",
              [Column("instance", "node"),
               *program_columns(program_cell(MEMORY, "Memory of this program")),
               pid_column(),
               *pod_columns(),
               Column("container_id", "container"),
               Column("user", "user"),
               Column("systemd_unit", "unit"),
               Column("exe", "executable"),
               known_column(),
               Column("profiler", "profiler"),
               Column("Value #B", "GPU memory", "bytes"),
               Column("Value #C", "allocations", "short")],
              in_pod(processes),
              *within(BY_PROCESS, processes,
                      total(BY_PROCESS, own("cuda_memory_outstanding_bytes", ON_GPU, GPU)),
                      total(BY_PROCESS, own("cuda_memory_outstanding_allocations", GPU)))[1:],
              width=24, sort="GPU memory"),
    )


def _gpus():
    held = total("instance, gpu", own("cuda_memory_outstanding_bytes", ON_GPU, GPU))
    return Row(
        "GPUs, with dcgm-exporter",
        table("GPUs by index", "What the label gpu stands for.",
              [*node_columns(), Column("gpu", "gpu"), Column("name", "model"),
               Column("uuid", "UUID"), Column("pci_bus_id", "PCI address")],
              top(200, own("gpu_info", GPU)), width=24, height=6, sort="gpu", descending=False),
        timeseries("Memory: held by programs, in use on the device",
                   "What programs have allocated, and what DCGM says is in use. The rest are "
                   "contexts, code, and what is allocated where no probe sees it. Needs dcgm-exporter in "
                   "the same Prometheus.", "bytes",
                   (held, "gpu {{gpu}} held {{instance}}"),
                   (f"1048576 * {dcgm('DCGM_FI_DEV_FB_USED')}", "gpu {{gpu}} in use {{instance}}")),
        timeseries("Utilization by GPU", "What DCGM measures. Busy without launches: a long kernel, or a graph. "
                   "Launches while idle: kernels that are too short. Needs dcgm-exporter in the same Prometheus.",
                   "percentunit", (f"{dcgm('DCGM_FI_DEV_GPU_UTIL')} / 100", "gpu {{gpu}} {{instance}}"), nothing=NEEDS_DCGM),
        timeseries("Launches by GPU", "Launches of kernels and of graphs per second.", EACH_SECOND,
                   (total("instance, gpu", rate("cuda_kernel_launches_total", GPU)),
                    "gpu {{gpu}} kernels {{instance}}"),
                   (total("instance, gpu", rate("cuda_graph_launches_total", GPU)),
                    "gpu {{gpu}} graphs {{instance}}"), width=24, height=6),
    )


def _pods():
    by_pod = "namespace, pod"
    of_process = (f"max by ({BY_NODE}, pid, pod_uid) ({own('process_info', IN_A_POD)})\n"
                  f"  * on (pod_uid) group_left (namespace, pod) {PODS}")
    held = total("instance, pid", own("cuda_memory_outstanding_bytes", ON_GPU, GPU))
    return Row(
        "Pods, with kube-state-metrics",
        timeseries("GPU memory held by pod", "Allocated and not freed, by the pod that the process runs in. "
                   "Needs kube-state-metrics in the same Prometheus.", "bytes",
                   (f"sum by ({by_pod}) (\n  {held}\n  * on ({BY_NODE}, pid) group_left ({by_pod}) (\n  "
                    f"{of_process}))", "{{namespace}}/{{pod}}"), nothing=NEEDS_KUBE),
        table("GPU processes by pod", "Which pod each GPU process belongs to. Needs "
              "kube-state-metrics in the same Prometheus.",
              [Column("namespace", "namespace"),
               Column("pod", "pod", link=link_to(WORKLOAD, "This pod", namespace="${__data.fields.namespace}",
                                                 pod="${__data.fields.pod}")),
               *node_columns(),
               Column("Value", "processes", "short")],
              top(200, count("instance, namespace, pod", f"\n  {of_process}")), nothing=NEEDS_KUBE),
    )


def _cuda():
    return Row(
        "Probe cuda: memory, copies, launches",
        timeseries("GPU memory held by process", "Allocated and not freed.", "bytes",
                   (lines(10, total("comm, instance, pid", own("cuda_memory_outstanding_bytes", ON_GPU, GPU))),
                    "{{comm}} {{script}} {{slurm_job_id}} {{pid}}"),
                   links=[link_to(MEMORY, "Memory and leaks", "instance")]),
        timeseries("Allocations and frees", "Successful calls per second.", EACH_SECOND,
                   (total("", rate("cuda_memory_allocations_total")), "allocations"),
                   (total("", rate("cuda_memory_frees_total")), "frees"),
                   (total("", rate("cuda_memory_untracked_frees_total")), "frees of untracked memory")),
        timeseries("Copied", "Bytes of successful copies per second, by direction.", "binBps",
                   (total("direction", rate("cuda_memcpy_bytes_total")), "{{direction}}"), width=8, stack=True,
                   links=[link_to(COPIES, "Copies and launches", "instance")]),
        timeseries("Kernel launches", "Launches per second, by program.", EACH_SECOND,
                   (lines(10, total("comm", rate("cuda_kernel_launches_total"))), PROGRAM_NAME), width=8),
        timeseries("Failing calls", "CUDA calls that returned an error.", EACH_SECOND,
                   (lines(10, total("comm, function, error", rate("cuda_api_errors_total"))),
                    "{{comm}} {{script}} {{slurm_job_id}} {{function}} {{error}}"), width=8, shade="red"),
    )


def _host():
    to_host = [link_to(HOST, "Host", "instance")]
    return Row(
        "Is it the host?",
        time_of_launching_threads(rate, width=12, links=to_host),
        gpu_without_work(rate, width=12, links=to_host),
    )


def _func():
    to_functions = [link_to(FUNCTIONS, "Functions", "instance")]
    return Row(
        "Probe functions: functions of libraries",
        timeseries("Calls", "Calls per second of traced functions.", EACH_SECOND,
                   (lines(10, total("library, function", rate("function_calls_total"))),
                    "{{library}} {{function}}"), width=8, links=to_functions),
        timeseries("Duration", "The p99 of the ten slowest: what 99 of 100 calls stay below.", "s",
                   (lines(10, quantile(0.99, "library, function", "function_duration_seconds")),
                    "{{library}} {{function}}"), width=8, logarithmic=True, links=to_functions),
        timeseries("Slow and failing calls", "Calls over their slow_threshold, and calls that returned "
                   "an error.", EACH_SECOND,
                   (lines(10, total("library, function", rate("function_slow_calls_total"))),
                    "{{library}} {{function}} slow"),
                   (lines(10, total("library, function, error", rate("function_errors_total"))),
                    "{{library}} {{function}} {{error}}"), width=8, links=to_functions),
    )


def _kernel_rows():
    to_kernel = [link_to(KERNEL, "Kernel side", "instance")]
    return [
        Row("Probe xid: errors that the driver reports",
            table("Xids", "Errors of GPUs in this range, with the program that the driver names: /api/v1/xids of the "
                  "node has the last ones with their text.",
                  [*node_columns(), Column("gpu", "GPU"), Column("device", "device"), Column("xid", "Xid"),
                   Column("class", "class"), Column("comm", "program"), Column("Value", "reports", "short")],
                  top(50, total("instance, gpu, device, xid, class, comm", grown("gpu_xid_total")) + " > 0"), width=14),
            timeseries("SXids and ignored lines", "Errors of NVSwitches, and lines of the kernel's log that are not "
                       "counted.", EACH_SECOND,
                       (total("device, sxid, severity", rate("nvswitch_sxid_total")), "{{device}} {{sxid}} {{severity}}"),
                       (total("reason", rate("xid_lines_ignored_total")), "ignored: {{reason}}"), width=10),
            collapsed=True),
        Row("Probe pcie: configuration space",
            timeseries("PCIe accesses", "Accesses to the configuration space of devices.", EACH_SECOND,
                       (lines(10, total("device, op, origin", rate("pcie_config_accesses_total"))),
                        "{{device}} {{op}} by {{origin}}"), links=to_kernel),
            timeseries("PCIe failures", "Accesses that failed, and reads answered with nothing but "
                       "ones: what a GPU does that fell off the bus.", EACH_SECOND,
                       (total("device", rate("pcie_config_errors_total")), "{{device}} failed"),
                       (total("device", rate("pcie_config_all_ones_reads_total")),
                        "{{device}} all ones"), links=to_kernel, shade="red"),
            collapsed=True),
        Row("Probe fence: DMA fences",
            timeseries("Fence events", "What happens to the fences of DRM drivers.", EACH_SECOND,
                       (total("driver, event", rate("dma_fence_events_total")),
                        "{{driver}} {{event}}"), links=to_kernel),
            timeseries("Fence waits", "What 99 of 100 waits stay below.", "s",
                       (quantile(0.99, "driver", "dma_fence_wait_duration_seconds"), "{{driver}}"),
                       logarithmic=True, links=to_kernel),
            collapsed=True),
        Row("Probe nvlink: helpers of the NVIDIA driver",
            timeseries("Helper calls", "Calls of nvlink_strcpy, nvlink_memcpy and nvlink_memset inside "
                       "the driver: not NVLink traffic.", EACH_SECOND,
                       (total("op", rate("nvlink_helper_calls_total")), "{{op}}"), links=to_kernel),
            timeseries("Helper bytes", "Bytes that they copy or set: not NVLink traffic.", "binBps",
                       (total("op", rate("nvlink_helper_bytes_total")), "{{op}}"),
                       links=to_kernel),
            collapsed=True),
        Row("Probe syscall: system calls of GPU processes",
            timeseries("System calls", "The ten most frequent ones.", EACH_SECOND,
                       (lines(10, total("syscall", rate("syscalls_total"))), "{{syscall}}"),
                       links=to_kernel),
            timeseries("Failing system calls", "By the error's name.", EACH_SECOND,
                       (lines(10, total("syscall, error", rate("syscall_errors_total"))),
                        "{{syscall}} {{error}}"), links=to_kernel, shade="red"),
            collapsed=True),
    ]


def make():
    return dashboard(
        NODE, "Node",
        "One node, or several: its GPUs and processes, and what each probe of the exporter sees.",
        [_state(), _gpus(), _pods(), _host(), _cuda(), _func(), *_kernel_rows()], variables=[GPUS])
