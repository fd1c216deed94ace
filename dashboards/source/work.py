"""What programs have the GPU do: copies, memsets and kernel launches."""

from .common import (COPIES, ERROR_COLORS, FAILING_COLORS, GPUS, dashboard, node_columns, program_columns,
                     program_variables)
from .model import Row
from .panels import EACH_SECOND, Column, heatmap, stat, table, timeseries
from .promql import (GPU, PROGRAM, PROGRAM_NAME, buckets, grown, increase, lines, mean, own, quantile, rate, top,
                     total, zero)

SYNC = 'mode="sync"'
OVER_THE_BUS = (SYNC, 'direction=~"h2d|d2h"', PROGRAM, GPU)


def _now():
    return Row(
        "Now",
        stat("Copied", "Bytes of successful copies.", "binBps",
             zero(total("", rate("cuda_memcpy_bytes_total", PROGRAM, GPU))), width=6),
        stat("Kernel launches", "Kernels that were launched, by calls and by graphs.", EACH_SECOND,
             zero(total("", rate("cuda_kernel_launches_total", PROGRAM, GPU))), width=6),
        stat("Graph launches", "Launches of CUDA graphs. Their kernels are among the kernel launches, unless their "
             "content is unknown.", EACH_SECOND,
             zero(total("", rate("cuda_graph_launches_total", PROGRAM, GPU))), width=6),
        stat("Failing calls", "CUDA calls that returned an error.", EACH_SECOND,
             zero(total("", rate("cuda_api_errors_total", PROGRAM))), width=6, colors=FAILING_COLORS),
    )


def _bandwidth():
    return Row(
        "Bandwidth of synchronous copies",
        timeseries("Mean bandwidth", "Bytes over the time inside the calls, by direction, as the "
                   "program sees it. h2d and d2h from pageable memory are far slower than the bus.", "binBps",
                   (f"{total('direction', rate('cuda_memcpy_bytes_total', SYNC, PROGRAM, GPU))}\n  / "
                    f"{total('direction', rate('cuda_memcpy_seconds_total', SYNC, PROGRAM, GPU))}", "{{direction}}"),
                   logarithmic=True),
        timeseries("The slow end", "The bandwidth that one copy in ten does not reach, by direction. "
                   "Small copies never do.", "binBps",
                   (quantile(0.1, "direction", "cuda_memcpy_bandwidth_bytes_per_second", PROGRAM),
                    "{{direction}}"), logarithmic=True),
        timeseries("Mean bandwidth by program", "Bytes over the time inside synchronous copies between a host and a GPU, of "
                   "the ten fastest.", "binBps",
                   (lines(10, f"{total('comm, direction', rate('cuda_memcpy_bytes_total', *OVER_THE_BUS))}\n  / "
                          f"{total('comm, direction', rate('cuda_memcpy_seconds_total', *OVER_THE_BUS))}"),
                    "{{comm}} {{script}} {{slurm_job_id}} {{direction}}"), width=24, logarithmic=True),
    )


def _every_copy():
    return Row(
        "Bandwidth of every synchronous copy",
        *[heatmap(f"Bandwidth, {name}", f"How many synchronous copies reach which bandwidth: {meaning}.",
                  "binBps", buckets("cuda_memcpy_bandwidth_bytes_per_second", f'direction="{direction}"', PROGRAM))
          for direction, name, meaning in (("h2d", "host to device", "from host memory to a GPU"),
                                      ("d2h", "device to host", "from a GPU to host memory"),
                                      ("d2d", "device to device", "within a GPU and between GPUs"),
                                      ("h2h", "host to host", "within host memory"))],
        collapsed=True,
    )


def _copies():
    return Row(
        "Copies and memsets",
        timeseries("Copied by direction", "Bytes of successful copies per second. Of asynchronous ones "
                   "when they were submitted.", "binBps",
                   (total("direction, mode", rate("cuda_memcpy_bytes_total", PROGRAM, GPU)),
                    "{{direction}} {{mode}}"), stack=True),
        timeseries("Copies by direction", "Successful copies per second.", EACH_SECOND,
                   (total("direction, mode", rate("cuda_memcpy_total", PROGRAM, GPU)), "{{direction}} {{mode}}")),
        timeseries("Copied by program", "Bytes of successful copies per second.", "binBps",
                   (lines(10, total("comm", rate("cuda_memcpy_bytes_total", PROGRAM, GPU))), PROGRAM_NAME)),
        timeseries("Copied by GPU", "Bytes of successful copies per second.", "binBps",
                   (total("instance, gpu", rate("cuda_memcpy_bytes_total", PROGRAM, GPU)),
                    "{{cluster}} {{instance}} gpu {{gpu}}")),
        timeseries("Threads inside copies", "Time inside copy calls per second: how many threads wait "
                   "in them, on average.", "short",
                   (total("direction, mode", rate("cuda_memcpy_seconds_total", PROGRAM, GPU)),
                    "{{direction}} {{mode}}")),
        timeseries("Duration of synchronous copies", "What 99 of 100 calls stay below, by direction.",
                   "s", (quantile(0.99, "direction", "cuda_memcpy_duration_seconds", PROGRAM), "{{direction}}"),
                   logarithmic=True),
        heatmap("Duration of synchronous copies, all", "How long the calls take.", "s",
                buckets("cuda_memcpy_duration_seconds", PROGRAM)),
        heatmap("Size of copies", "How large copies are. Many small ones cost more than their bytes.",
                "bytes", buckets("cuda_memcpy_size_bytes", PROGRAM)),
        timeseries("Mean size of copies", "Bytes for each copy, by direction.", "bytes",
                   (mean("direction", "cuda_memcpy_size_bytes", PROGRAM), "{{direction}}"), width=8),
        timeseries("Asynchronous copies in flight", "Estimate of the bytes that were submitted and not "
                   "waited for yet, by process.", "bytes",
                   (lines(10, total("comm, instance, pid",
                                  own("cuda_memcpy_async_in_flight_estimated_bytes", PROGRAM))),
                    "{{comm}} {{script}} {{slurm_job_id}} {{pid}}"), width=8),
        timeseries("Memsets", "Bytes of successful memsets per second.", "binBps",
                   (total("comm, mode", rate("cuda_memset_bytes_total", PROGRAM, GPU)),
                    "{{comm}} {{script}} {{slurm_job_id}} {{mode}}"), width=4),
        timeseries("Memset calls", "Successful memsets per second.", EACH_SECOND,
                   (total("comm, mode", rate("cuda_memset_total", PROGRAM, GPU)),
                    "{{comm}} {{script}} {{slurm_job_id}} {{mode}}"), width=4),
    )


def _launches():
    return Row(
        "Kernel launches",
        timeseries("Launches by kernel", "The ten kernels that are launched the most.", EACH_SECOND,
                   (lines(10, total("kernel", rate("cuda_kernel_launches_total", PROGRAM, GPU))),
                    "{{kernel}}")),
        timeseries("Launches by program", "Successful launches per second.", EACH_SECOND,
                   (lines(10, total("comm", rate("cuda_kernel_launches_total", PROGRAM, GPU))), PROGRAM_NAME),
                   width=6),
        timeseries("Graph launches by program", "Launches of CUDA graphs, by whether it is known what they run.", EACH_SECOND,
                   (lines(10, total("comm, content", rate("cuda_graph_launches_total", PROGRAM, GPU))),
                    f"{PROGRAM_NAME} {{{{content}}}}"), width=6),
        timeseries("Launches by calls and by graphs", "Kernels per second that were launched by calls (stream) and by "
                   "graphs whose content is known (graph).", EACH_SECOND,
                   (total("via", rate("cuda_kernel_launches_total", PROGRAM, GPU)), "{{via}}"), stack=True),
        timeseries("Captured calls", "Calls on capturing streams per second: they are recorded into a graph and do not "
                   "run. A program that captures all the time gains little by graphs.", EACH_SECOND,
                   (total("operation", rate("cuda_graph_captured_total", PROGRAM)), "{{operation}}"), stack=True),
        table("Kernels and shapes", "How often each kernel was launched in which shape (XxYxZ).",
              [*program_columns(),
               Column("kernel", "kernel"),
               Column("grid", "grid"),
               Column("block", "block"),
               Column("Value", "launches", "short")],
              top(50, total("comm, kernel, grid, block",
                            increase("cuda_kernel_launches_total", PROGRAM, GPU))),
              width=24, height=10),
        heatmap("Threads of launches", "GPU threads of each launch, grid times block. Launches of a few "
                "threads leave most of a GPU idle.", "short",
                buckets("cuda_kernel_launch_threads", PROGRAM, GPU), width=8),
        heatmap("Duration of launch calls", "Time inside the launch call, not the kernel's run time. "
                "It grows when the queue of launches is full. Of a sample of them where "
                "gpusnoop_launch_sampling_info says so.", "s",
                buckets("cuda_kernel_launch_duration_seconds", PROGRAM, GPU), width=8),
        timeseries("Duration of launch calls, by GPU", "What half, and 99 of 100, launch calls stay "
                   "below.", "s",
                   (quantile(0.5, "instance, gpu", "cuda_kernel_launch_duration_seconds", PROGRAM, GPU),
                    "{{cluster}} {{instance}} gpu {{gpu}} p50"),
                   (quantile(0.99, "instance, gpu", "cuda_kernel_launch_duration_seconds", PROGRAM, GPU),
                    "{{cluster}} {{instance}} gpu {{gpu}} p99"), width=8, logarithmic=True),
    )


def _elapsed():
    return Row(
        "Times between events",
        heatmap("Times on the GPU, as programs took them", "What programs read with cudaEventElapsedTime: the GPU "
                "measured it, and the program chose what it is of, such as a kernel, a step or an epoch.", "s",
                buckets("cuda_event_elapsed_seconds", PROGRAM), width=8),
        timeseries("Times on the GPU, by program", "What half, and 99 of 100, of these times stay below.", "s",
                   (lines(5, quantile(0.5, "comm", "cuda_event_elapsed_seconds", PROGRAM)), f"{PROGRAM_NAME} p50"),
                   (lines(5, quantile(0.99, "comm", "cuda_event_elapsed_seconds", PROGRAM)), f"{PROGRAM_NAME} p99"),
                   width=8, logarithmic=True),
        timeseries("Times taken", "How often programs read the time between two events. Those that cannot be are negative, "
                   "not a number, or longer than the machine has been running.", EACH_SECOND,
                   (lines(10, total("comm", rate("cuda_event_elapsed_seconds_count", PROGRAM))), PROGRAM_NAME),
                   (zero(total("", rate("cuda_event_elapsed_invalid_total", PROGRAM))), "cannot be"), width=8),
    )


def _errors():
    return Row(
        "Failing calls",
        timeseries("Failing calls by error", "CUDA calls that returned an error.", EACH_SECOND,
                   (total("error", rate("cuda_api_errors_total", PROGRAM)), "{{error}}"), shade="red"),
        table("Failing calls by function", "Which program's calls of which function failed.",
              [*node_columns(),
               *program_columns(),
               Column("function", "function"),
               Column("error", "error"),
               Column("Value", "calls", "short", colors=ERROR_COLORS)],
              top(50, total("instance, comm, function, error", grown("cuda_api_errors_total", PROGRAM)) + " > 0")),
    )


def make():
    return dashboard(
        COPIES, "Copies and launches",
        "Copies with their bandwidth by direction, memsets, and kernel launches with kernels and shapes.",
        [_now(), _copies(), _bandwidth(), _launches(), _elapsed(), _errors(), _every_copy()],
        variables=[*program_variables("cuda_memcpy_total"), GPUS])
