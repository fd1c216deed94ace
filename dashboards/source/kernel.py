"""What the kernel does for GPU programs: the bus, system calls and fences."""

from .common import ERROR_COLORS, KERNEL, dashboard, node_columns, program_columns
from .model import Row
from .panels import EACH_SECOND, Column, table, timeseries
from .promql import NODE_NAME, PROGRAM_NAME, grown, happened, increase, lines, quantile, rate, top, total, within

DEVICE = "instance, device"


def _pcie():
    accesses = total(DEVICE, increase("pcie_config_accesses_total"))
    failed = total(DEVICE, grown("pcie_config_errors_total"))
    ones = total(DEVICE, grown("pcie_config_all_ones_reads_total"))
    return Row(
        "PCIe: has a device fallen off the bus?",
        table("Devices", "Accesses to the PCIe configuration space of each device in this range; devices with all-ones reads or "
              "failed accesses come first. A device that has fallen off the bus answers all reads with ones.",
              [*node_columns(), Column("device", "device"),
               Column("Value #B", "all-ones reads", "short", colors=ERROR_COLORS),
               Column("Value #C", "failed", "short", colors=ERROR_COLORS),
               Column("Value #D", "accesses", "short")],
              *within(DEVICE, top(100, f"1e15 * ({ones} > 0) or 1e12 * ({failed} > 0) or {accesses}"), ones, failed, accesses),
              sort=("all-ones reads", "failed"), width=24),
        timeseries("All-ones reads by device", "Four-byte reads that return only ones, per second, of the ten devices with the most. "
                   "Single registers may hold that value; if all reads do, the device has fallen off the bus.", EACH_SECOND,
                   (lines(10, total(DEVICE, rate("pcie_config_all_ones_reads_total"))),
                    f"{{{{device}}}} {NODE_NAME}"), alarm="red", width=24),
    )


# The system call by which uprobes see that a function returned: made by no program.
NOT_OURS = 'syscall!="uretprobe"'
# How calls say "not yet": of every program, thousands.
NOT_YET = 'error!~"EAGAIN|EINPROGRESS|EINTR|ETIMEDOUT"'
NEEDS_SYSCALL = "needs the probe syscall, which is off by default"


def _syscalls():
    name = f"{PROGRAM_NAME} {{{{syscall}}}}"
    return Row(
        "System calls of GPU processes, with the probe syscall",
        table("Failing system calls", "In this range, by error, except errors that mean \"not yet\", such as EAGAIN and "
              "ETIMEDOUT. Programs that look for files get many ENOENT.",
              [*node_columns(), *program_columns(), Column("syscall", "call"),
               Column("error", "error"), Column("Value", "calls", "short")],
              top(50, happened("instance, comm, syscall, error", "syscall_errors_total", NOT_YET)),
              width=24, nothing="no system call failed, or the probe syscall is off"),
        timeseries("Time in system calls, by program", "Threads inside each system call, on average. Calls that wait, such as futex "
                   "and poll, are always high; ioctl is how programs talk to the NVIDIA driver.", "short",
                   (lines(10, total("comm, syscall", rate("syscall_duration_seconds_sum", NOT_OURS))), name), nothing=NEEDS_SYSCALL),
        timeseries("System calls by program", "The ten most frequent ones. Thousands per second of one program cost CPU time.",
                   EACH_SECOND, (lines(10, total("comm, syscall", rate("syscalls_total", NOT_OURS))), name), nothing=NEEDS_SYSCALL),
        collapsed=True,
    )


EMITTED = 'event="emit"'
SIGNALED = 'event="signaled"'
# Of a timeline on which none was signaled yet, none is the number of them.
NEVER_OR_SIGNALED = (f"({total('driver, timeline', rate('dma_fence_events_total', SIGNALED))}\n"
                     f"    or 0 * {total('driver, timeline', rate('dma_fence_events_total', EMITTED))})")


def _fences():
    return Row(
        "DMA fences of DRM drivers",
        timeseries("Fences not signaled", "Fences emitted less fences signaled, per second. Above 0 for long, work piles up on that "
                   "timeline. Fences are of amdgpu, i915, xe, nouveau and nvidia-drm: CUDA's own work has none.", EACH_SECOND,
                   (lines(10, f"{total('driver, timeline', rate('dma_fence_events_total', EMITTED))}\n  - {NEVER_OR_SIGNALED}"),
                    "{{driver}} {{timeline}}"), minimum=None),
        timeseries("Duration of fences", "p99 of the time from emission to signal, and of waits for a fence.", "s",
                   (quantile(0.99, "driver", "dma_fence_signal_latency_seconds"), "{{driver}} emission to signal"),
                   (quantile(0.99, "driver", "dma_fence_wait_duration_seconds"), "{{driver}} waits"),
                   logarithmic=True),
        collapsed=True,
    )


def make():
    return dashboard(
        KERNEL, "Kernel side",
        "Whether a device has fallen off the PCIe bus, and the system calls and DMA fences of GPU processes.",
        [_pcie(), _syscalls(), _fences()])
