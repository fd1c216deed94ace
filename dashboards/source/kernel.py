"""What the kernel does for GPU programs: the bus, fences, the driver's helpers and system calls."""

from .common import ERROR_COLORS, KERNEL, STATE_COLORS, STATE_MAPPING, dashboard, node_columns, program_columns
from .model import Row
from .panels import EACH_SECOND, Column, heatmap, stat, table, timeseries
from .promql import PROGRAM_NAME, buckets, grown, increase, lines, own, quantile, rate, top, total, within, zero

DEVICE = "instance, device"


def _pcie():
    accesses = total(DEVICE, increase("pcie_config_accesses_total"))
    failed = total(DEVICE, grown("pcie_config_errors_total"))
    return Row(
        "PCIe: configuration space",
        timeseries("Accesses by device", "Reads and writes of the configuration space per second, failed "
                   "ones included. origin: a driver, or user space (setpci, lspci, nvidia-smi).", EACH_SECOND,
                   (lines(10, total("instance, device, op, origin", rate("pcie_config_accesses_total"))),
                    "{{cluster}} {{instance}} {{device}} {{op}} by {{origin}}")),
        timeseries("Accesses by size", "In bytes.", EACH_SECOND,
                   (total("op, size", rate("pcie_config_accesses_total")), "{{op}} of {{size}}")),
        timeseries("Failing accesses", "Accesses that returned an error, of the five devices with the most.", EACH_SECOND,
                   (lines(5, total("instance, device, op", rate("pcie_config_errors_total"))),
                    "{{cluster}} {{instance}} {{device}} {{op}}"), shade="red"),
        timeseries("Reads of all ones", "Reads of four bytes that gave nothing but ones: what a device "
                   "answers that fell off the bus. A few registers may hold that. Of the five devices with the most.",
                   EACH_SECOND,
                   (lines(5, total(DEVICE, rate("pcie_config_all_ones_reads_total"))),
                    "{{cluster}} {{instance}} {{device}}"), shade="orange"),
        heatmap("Duration of accesses", "How long accesses take. A device that is going is slow before "
                "it is gone.", "s", buckets("pcie_config_access_duration_seconds")),
        table("Devices", "What was done to each device's configuration space in this range: of a hundred devices, those of "
              "which accesses failed first.",
              [*node_columns(), Column("device", "device"),
               Column("Value #B", "failed", "short", colors=ERROR_COLORS),
               Column("Value #C", "all ones", "short", colors=ERROR_COLORS),
               Column("Value #D", "accesses", "short")],
              *within(DEVICE, top(100, f"1e15 * ({failed} > 0) or {accesses}"), failed,
                      total(DEVICE, grown("pcie_config_all_ones_reads_total")), accesses),
              sort="failed"),
    )


def _fences():
    return Row(
        "DMA fences of DRM drivers",
        timeseries("Fence events by driver", "What happens to fences, per second. They are of amdgpu, i915, "
                   "xe, nouveau and nvidia-drm: CUDA's own work has none.", EACH_SECOND,
                   (total("driver, event", rate("dma_fence_events_total")), "{{driver}} {{event}}")),
        timeseries("Fences that are not signalled", "Emitted less signalled, per second: above 0 for long, "
                   "work piles up on that timeline.", EACH_SECOND,
                   (lines(10, f"{total('driver, timeline', rate('dma_fence_events_total', EMITTED))}\n  - "
                        f"{NEVER_OR_SIGNALLED}"),
                    "{{driver}} {{timeline}}"), minimum=None),
        timeseries("Duration of waits", "What half, and 99 of 100, waits for a fence stay below.", "s",
                   (quantile(0.5, "driver", "dma_fence_wait_duration_seconds"), "{{driver}} p50"),
                   (quantile(0.99, "driver", "dma_fence_wait_duration_seconds"), "{{driver}} p99"),
                   width=8, logarithmic=True),
        heatmap("Duration of waits, all", "How long waits for a fence take.", "s",
                buckets("dma_fence_wait_duration_seconds"), width=8),
        heatmap("From emission to signal", "How long the work behind a fence takes.", "s",
                buckets("dma_fence_signal_latency_seconds"), width=8),
        collapsed=True,
    )


EMITTED = 'event="emit"'
SIGNALLED = 'event="signaled"'
# Of a timeline on which none was signalled yet, none is the number of them.
NEVER_OR_SIGNALLED = (f"({total('driver, timeline', rate('dma_fence_events_total', SIGNALLED))}\n"
                      f"    or 0 * {total('driver, timeline', rate('dma_fence_events_total', EMITTED))})")
# The system call by which uprobes see that a function returned: made by no program.
NOT_OURS = 'syscall!="uretprobe"'


def _nvlink():
    return Row(
        "Helpers of the NVIDIA driver's NVLink part",
        timeseries("Helper calls by node", "Calls of nvlink_strcpy, nvlink_memcpy and nvlink_memset: link "
                   "training and requests to the driver, not NVLink traffic.", EACH_SECOND,
                   (total("instance, op", rate("nvlink_helper_calls_total")),
                    "{{cluster}} {{instance}} {{op}}"), width=8),
        timeseries("Helper bytes by node", "Bytes that they copy or set: not NVLink traffic.", "binBps",
                   (total("instance, op", rate("nvlink_helper_bytes_total")),
                    "{{cluster}} {{instance}} {{op}}"), width=8),
        heatmap("Duration of helper calls", "How long calls of the helpers take.", "s",
                buckets("nvlink_helper_duration_seconds"), width=8),
        collapsed=True,
    )


def _syscalls():
    return Row(
        "System calls of GPU processes",
        stat("System calls", "Of all GPU processes, without uretprobe, by which the kernel tells the exporter "
             "that a call returned.", EACH_SECOND, zero(total("", rate("syscalls_total", NOT_OURS))), width=6, height=8),
        timeseries("System calls by name", "The ten most frequent ones.", EACH_SECOND,
                   (lines(10, total("syscall", rate("syscalls_total", NOT_OURS))), "{{syscall}}"), width=9),
        timeseries("System calls by program", "The ten programs that make the most.", EACH_SECOND,
                   (lines(10, total("comm", rate("syscalls_total", NOT_OURS))), PROGRAM_NAME), width=9),
        timeseries("Time in system calls", "Time inside calls per second: how many threads are inside, on "
                   "average. Those that wait, such as futex and poll, are always high.", "short",
                   (lines(10, total("syscall", rate("syscall_duration_seconds_sum", NOT_OURS))), "{{syscall}}"),
                   width=8),
        timeseries("Duration of ioctl", "What 99 of 100 calls of ioctl stay below: how programs talk to the "
                   "NVIDIA driver.", "s",
                   (quantile(0.99, "comm", "syscall_duration_seconds", 'syscall="ioctl"'), PROGRAM_NAME),
                   width=8, logarithmic=True),
        heatmap("Duration of system calls", "How long calls take, all of them.", "s",
                buckets("syscall_duration_seconds"), width=8),
        table("Failing system calls", "By the error's name.",
              [*node_columns(), *program_columns(), Column("syscall", "call"),
               Column("error", "error"), Column("Value", "calls", "short", colors=ERROR_COLORS)],
              top(50, total("instance, comm, syscall, error", grown("syscall_errors_total")) + " > 0"),
              width=24),
    )


def _probes():
    return Row(
        "Probes",
        table("Kernel-side probes", "The state of each of them on the node; why it is not up is on "
              "its page and in its log.",
              [*node_columns(), Column("probe", "probe"),
               Column("state", "state", mappings=STATE_MAPPING, colors=STATE_COLORS)],
              top(200, own("probe_state", 'probe!~"cuda|functions"') + " == 1"), width=24, height=6, sort="state",
              descending=False),
    )


def make():
    return dashboard(
        KERNEL, "Kernel side",
        "PCIe configuration accesses, DMA fences, helpers of the NVIDIA driver, and system calls of GPU "
        "processes.",
        [_pcie(), _fences(), _nvlink(), _syscalls(), _probes()])
