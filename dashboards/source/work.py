"""What programs have the GPU do: kernel launches, copies and memsets."""

from . import tiles
from .common import (COPIES, ERROR_COLORS, FAILED, GPUS, dashboard, node_columns, program_columns, program_variables)
from .model import Row
from .panels import EACH_SECOND, Column, heatmap, stat, table, timeseries
from .promql import (GPU, PROGRAM, PROGRAM_NAME, buckets, happened, increase, launches, lines, own, quantile, rate, top, total, zero)

SYNC = 'mode="sync"'
OVER_THE_BUS = (SYNC, 'direction=~"h2d|d2h"', PROGRAM, GPU)


def per_second(name, *matchers):
    """Errors are of no GPU."""
    return rate(name, *matchers, PROGRAM, *(() if "error" in name else (GPU,)))


def _now():
    return Row(
        "Now",
        tiles.launches(per_second, width=6),
        stat("Graph launches", "Launches of CUDA graphs per second, over the last 5 minutes. Their kernels are among the kernel "
             "launches, unless their content is unknown.", EACH_SECOND,
             zero(total("", rate("cuda_graph_launches_total", PROGRAM, GPU))), width=6),
        tiles.copied(per_second, width=6),
        tiles.failing_calls(per_second, width=6),
    )


def _copies():
    return Row(
        "Copies and memsets",
        timeseries("Copied by program", "Bytes of successful copies per second, of the ten programs with the most. "
                   "Asynchronous copies count when they are submitted.", "binBps",
                   (lines(10, total("comm", rate("cuda_memcpy_bytes_total", PROGRAM, GPU))), PROGRAM_NAME)),
        timeseries("Copied by direction", "h2d: host to device; d2h: device to host; d2d: within a GPU and between GPUs; h2h: "
                   "within host memory. sync: the program waits for the copy.", "binBps",
                   (total("direction, mode", rate("cuda_memcpy_bytes_total", PROGRAM, GPU)),
                    "{{direction}} {{mode}}"), stack=True),
        timeseries("Time inside copy calls, by program", "Threads inside copy calls, on average: 1 is one thread that does nothing "
                   "else. Synchronous copies hold their thread up.", "short",
                   (lines(10, total("comm, direction, mode", rate("cuda_memcpy_seconds_total", PROGRAM, GPU))),
                    f"{PROGRAM_NAME} {{{{direction}}}} {{{{mode}}}}")),
        timeseries("Bandwidth of synchronous copies, by program", "Bytes over the time inside the calls, of copies between host and "
                   "GPU. Copies from pageable memory are far slower than the bus.", "binBps",
                   (lines(10, f"{total('comm, direction', rate('cuda_memcpy_bytes_total', *OVER_THE_BUS))}\n  / "
                          f"{total('comm, direction', rate('cuda_memcpy_seconds_total', *OVER_THE_BUS))}"),
                    f"{PROGRAM_NAME} {{{{direction}}}}"), logarithmic=True),
        timeseries("Copies by program", "Successful copies per second, of the ten programs with the most. Many small copies cost "
                   "more than their bytes.", EACH_SECOND,
                   (lines(10, total("comm, direction, mode", rate("cuda_memcpy_total", PROGRAM, GPU))),
                    f"{PROGRAM_NAME} {{{{direction}}}} {{{{mode}}}}")),
        timeseries("Size of copies, mean", "Bytes of a copy, on average. gpusnoop_cuda_memcpy_size_bytes, which is off by default "
                   "(histograms in config.yaml), counts the sizes.", "bytes",
                   (lines(10, f"{total('comm, direction', rate('cuda_memcpy_bytes_total', PROGRAM, GPU))}\n  / "
                          f"{total('comm, direction', rate('cuda_memcpy_total', PROGRAM, GPU))}"),
                    f"{PROGRAM_NAME} {{{{direction}}}}"), logarithmic=True),
        timeseries("Asynchronous copies in flight, by process", "Estimated bytes that were submitted and not waited for yet.",
                   "bytes", (lines(10, total("comm, instance, pid", own("cuda_memcpy_async_in_flight_estimated_bytes", PROGRAM))),
                             f"{PROGRAM_NAME} pid {{{{pid}}}}")),
        timeseries("Memsets by program", "Bytes of successful memsets per second.", "binBps",
                   (lines(10, total("comm, mode", rate("cuda_memset_bytes_total", PROGRAM, GPU))),
                    f"{PROGRAM_NAME} {{{{mode}}}}")),
    )


def _launches():
    return Row(
        "Kernel launches",
        timeseries("Launches by program", "Kernels launched by calls and by graphs, of the ten programs with the most.", EACH_SECOND,
                   (lines(10, total("comm", launches(rate, PROGRAM, GPU))), PROGRAM_NAME)),
        timeseries("Graph launches by program", "Launches of CUDA graphs. known: the exporter saw the graph's content.", EACH_SECOND,
                   (lines(10, total("comm, content", rate("cuda_graph_launches_total", PROGRAM, GPU))),
                    f"{PROGRAM_NAME} {{{{content}}}}")),
        table("Kernels and shapes", "The 50 kernels with the most observed launches in this range, by shape (XxYxZ). Launches of a few "
              "threads leave most of a GPU idle. Of a program that costs more than cuda.max_overhead, launches are observed part of "
              "the time.",
              [*program_columns(),
               Column("kernel", "kernel"),
               Column("grid", "grid"),
               Column("block", "block"),
               Column("via", "launched by", mappings=[{"type": "value", "options": {
                   "stream": {"text": "call", "index": 0}, "graph": {"text": "graph", "index": 1}}}]),
               Column("Value", "launches", "short")],
              top(50, total("comm, kernel, grid, block, via",
                            increase("cuda_kernel_launches_total", PROGRAM, GPU))),
              width=24, height=10),
        timeseries("Duration of launch calls, p99, by program", "99 of 100 launch calls that were traced in full are shorter, of the "
                   "ten slowest programs. It is not the kernel's run time. It grows when the launch queue is full.", "s",
                   (lines(10, quantile(0.99, "comm", "cuda_kernel_launch_duration_seconds", PROGRAM, GPU)), PROGRAM_NAME),
                   logarithmic=True),
        timeseries("Calls captured into graphs, by program", "Calls on capturing streams are recorded and do not run. A program "
                   "that captures all the time gains little from graphs.", EACH_SECOND,
                   (lines(10, total("comm, operation", rate("cuda_graph_captured_total", PROGRAM))),
                    f"{PROGRAM_NAME} {{{{operation}}}}")),
        timeseries("Time between CUDA events, by program", "p50 and p99 of what programs read with cudaEventElapsedTime. The GPU "
                   "measures it; the program decides of what: a kernel, a step, an epoch.", "s",
                   (lines(5, quantile(0.5, "comm", "cuda_event_elapsed_seconds", PROGRAM)), f"{PROGRAM_NAME} p50"),
                   (lines(5, quantile(0.99, "comm", "cuda_event_elapsed_seconds", PROGRAM)), f"{PROGRAM_NAME} p99"),
                   logarithmic=True),
    )


def _errors():
    return Row(
        "Failing calls",
        timeseries("Failing calls by error", "CUDA calls that returned an error.", EACH_SECOND,
                   (total("error", rate("cuda_api_errors_total", FAILED, PROGRAM)), "{{error}}"), alarm="red", width=24),
        table("Failing calls by function", "CUDA calls that returned an error in this range.",
              [*node_columns(),
               *program_columns(),
               Column("function", "function"),
               Column("error", "error"),
               Column("Value", "calls", "short", colors=ERROR_COLORS)],
              top(50, happened("instance, comm, function, error", "cuda_api_errors_total", FAILED, PROGRAM)),
              width=24, height=6, nothing="no call failed"),
    )


def _every_copy():
    return Row(
        "Synchronous copies in detail",
        *[heatmap(f"Bandwidth, {name}", f"How many synchronous copies reach which bandwidth, {meaning}.",
                  "binBps", buckets("cuda_memcpy_bandwidth_bytes_per_second", f'direction="{direction}"', PROGRAM))
          for direction, name, meaning in (("h2d", "host to device", "from host memory to a GPU"),
                                           ("d2h", "device to host", "from a GPU to host memory"),
                                           ("d2d", "device to device", "within a GPU and between GPUs"),
                                           ("h2h", "host to host", "within host memory"))],
        timeseries("Duration of synchronous copies, mean", "Time inside a call, on average. gpusnoop_cuda_memcpy_duration_seconds, "
                   "which is off by default (histograms in config.yaml), counts the durations.", "s",
                   (f"{total('direction', rate('cuda_memcpy_seconds_total', SYNC, PROGRAM))}\n  / "
                    f"{total('direction', rate('cuda_memcpy_total', SYNC, PROGRAM))}", "{{direction}}"),
                   logarithmic=True),
        collapsed=True,
    )


def make():
    return dashboard(
        COPIES, "Copies and launches",
        "Copies with their bandwidth by direction, memsets, and kernel launches with kernels and shapes.",
        [_now(), _launches(), _copies(), _errors(), _every_copy()],
        variables=[*program_variables("cuda_memcpy_total"), GPUS])
