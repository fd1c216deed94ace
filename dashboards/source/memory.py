"""CUDA memory: who holds it, who allocates, and who does not give it back."""

from .common import (GPUS, LOWER_BOUND, MEMORY, NEEDS_DCGM, WARNING_COLORS, dashboard, node_columns, pid_column,
                     pod_columns, program_columns, program_variables)
from .model import Row
from .panels import EACH_SECOND, Column, stat, table, timeseries
from .promql import (GPU, NODE, ON_GPU, PROGRAM, PROGRAM_NAME, grown, growth, in_pod, increase, lines, own, rate, recorded,
                     top, total, within, zero)

BY_PROCESS = "instance, comm, container_id, pid"
PROCESS_NAME = "{{cluster}} {{instance}} {{pid}} {{comm}} {{script}} {{slurm_job_id}}"
BY_SITE = "instance, comm, container_id, pid, site"


def _held():
    bytes_held = own("cuda_memory_outstanding_bytes", PROGRAM, GPU)
    of_gpus = own("cuda_memory_outstanding_bytes", ON_GPU, PROGRAM, GPU)
    on_each = total("instance, gpu", of_gpus)
    there = f"sum by ({NODE}, gpu) ({recorded('gpu:device_memory_total_bytes:sum', GPU)})"
    return Row(
        "Held now",
        stat("GPU memory held", "Allocated and not freed: device, async, managed and vmm, without pinned host memory.",
             "bytes", zero(total("", of_gpus))),
        stat("Share of the GPUs", "GPU memory held, of the memory that the GPUs have on which it is. Needs dcgm-exporter "
             "and the recording rules.", "percentunit",
             f"sum({on_each} and on ({NODE}, gpu) {there})\n  / sum({there} and on ({NODE}, gpu) {on_each})", nothing=NEEDS_DCGM),
        stat("Growth in this range", "What is held now less what was held at its start.", "bytes",
             zero(growth("", of_gpus)), colors=WARNING_COLORS),
        stat("Older than an hour", "What is held and was allocated more than an hour ago, on all GPUs and of all kinds.",
             "bytes", zero(total("", own("cuda_memory_outstanding_older_than_bytes", 'age="1h"', PROGRAM)))),
        stat("Pinned host memory", "Host memory that is locked for copies.", "bytes",
             zero(total("", own("cuda_memory_outstanding_bytes", 'memory_kind="pinned_host"', PROGRAM, GPU)))),
        stat("Untracked frees", "Frees of memory that was allocated before the exporter "
             "started, or whose record was lost.", EACH_SECOND,
             zero(total("", rate("cuda_memory_untracked_frees_total", PROGRAM, GPU))), colors=WARNING_COLORS),
        timeseries("Memory held by process", "Allocated and not freed, of the ten that hold the most. "
                   "A line that only climbs is a leak.", "bytes",
                   (lines(10, total(BY_PROCESS, bytes_held)), PROCESS_NAME)),
        timeseries("Memory held by GPU", "gpu is the host's index, or unknown.", "bytes",
                   (total("instance, gpu", bytes_held), "{{cluster}} {{instance}} gpu {{gpu}}")),
        timeseries("Memory held by kind", "device: cudaMalloc; async: stream-ordered; managed: "
                   "unified; pinned_host: host memory that is locked; vmm: with handles (cuMemCreate).",
                   "bytes", (total("memory_kind", bytes_held), "{{memory_kind}}"), stack=True),
        timeseries("Allocations held by process", "Many small allocations that are not freed show here "
                   "before they show in bytes.", "short",
                   (lines(10, total(BY_PROCESS,
                                  own("cuda_memory_outstanding_allocations", PROGRAM, GPU))),
                    PROCESS_NAME)),
    )


def _leaks():
    site = own("cuda_memory_site_outstanding_bytes", PROGRAM)
    sites = top(30, total(BY_SITE, site))
    unfreed = total("instance, comm", grown("cuda_memory_unfreed_at_exit_bytes_total", PROGRAM, GPU))
    return Row(
        "Leaks",
        timeseries("Memory by age", "What is held and older than a minute, ten minutes, an hour. "
                   "Where the last one climbs with the others, nothing is given back.", "bytes",
                   (total("age", own("cuda_memory_outstanding_older_than_bytes", PROGRAM)),
                    "older than {{age}}")),
        timeseries("Old memory by process", "What is held and older than an hour, of the ten that "
                   "hold the most.", "bytes",
                   (lines(10, total(BY_PROCESS,
                                  own("cuda_memory_outstanding_older_than_bytes", 'age="1h"', PROGRAM))),
                    PROCESS_NAME)),
        table("Call sites", "Where in the program the memory that is held was allocated: the sites that "
              "hold the most in each process. A pid leads to all of them with their stacks, at the "
              "exporter of its node. Namespaces and pods need kube-state-metrics.",
              [*node_columns(),
               *program_columns(),
               *pod_columns(),
               pid_column(),
               Column("site", "call site"),
               Column("Value #A", "held", "bytes"),
               Column("Value #B", "growth", "bytes", colors=WARNING_COLORS)],
              in_pod(sites), *within(BY_SITE, sites, growth(BY_SITE, site))[1:],
              width=24, height=10, sort="held"),
        table("Not freed at exit, by program", "Memory that programs had not freed when they ended in this range. The "
              "driver takes it back: it shows programs that do not clean up, or that were killed.",
              [*node_columns(), *program_columns(), Column("Value #A", "bytes", "bytes"),
               Column("Value #B", "allocations")],
              *within("instance, comm", top(20, f"{unfreed} > 0"),
                      total("instance, comm", grown("cuda_memory_unfreed_at_exit_allocations_total", PROGRAM, GPU))),
              width=24, height=6, sort="bytes"),
        timeseries("Not freed at exit", "Bytes that programs had not freed when they ended.", "bytes",
                   (total("comm", increase("cuda_memory_unfreed_at_exit_bytes_total", PROGRAM, GPU,
                                           over="$__rate_interval")), PROGRAM_NAME)),
        timeseries("Allocations not freed at exit", "How many allocations programs had not freed when "
                   "they ended.", "short",
                   (total("comm", increase("cuda_memory_unfreed_at_exit_allocations_total", PROGRAM, GPU,
                                           over="$__rate_interval")), PROGRAM_NAME)),
    )


def _rates():
    bytes_held = own("cuda_memory_outstanding_bytes", PROGRAM, GPU)
    return Row(
        "Allocating and freeing",
        timeseries("Allocations", "Successful allocations per second, by program.", EACH_SECOND,
                   (lines(10, total("comm", rate("cuda_memory_allocations_total", PROGRAM, GPU))),
                    PROGRAM_NAME), width=8),
        timeseries("Frees", "Successful frees per second of memory whose allocation was seen, by "
                   "program.", EACH_SECOND,
                   (lines(10, total("comm", rate("cuda_memory_frees_total", PROGRAM, GPU))), PROGRAM_NAME),
                   width=8),
        timeseries("Frees of untracked memory by program", "Memory from before the exporter's start. Later on it should "
                   "be none.", EACH_SECOND,
                   (lines(10, total("comm", rate("cuda_memory_untracked_frees_total", PROGRAM, GPU))),
                    PROGRAM_NAME), width=8),
        timeseries("Allocated", "Bytes asked for per second, by kind of memory.", "binBps",
                   (total("memory_kind", rate("cuda_memory_allocated_bytes_total", PROGRAM, GPU)), "{{memory_kind}}"),
                   width=8),
        timeseries("Freed", "Bytes given back per second, by kind of memory.", "binBps",
                   (total("memory_kind", rate("cuda_memory_freed_bytes_total", PROGRAM, GPU)), "{{memory_kind}}"),
                   width=8),
        timeseries("Growth", "Allocated less freed: what the memory that is held grows by.", "binBps",
                   (f"{total('comm', rate('cuda_memory_allocated_bytes_total', PROGRAM, GPU))}\n  - "
                    f"{total('comm', rate('cuda_memory_freed_bytes_total', PROGRAM, GPU))}", PROGRAM_NAME),
                   width=8, minimum=None),
        timeseries("Failing allocations", "Allocations that returned an error, such as "
                   "cudaErrorMemoryAllocation.", EACH_SECOND,
                   (total("comm, function, error",
                          rate("cuda_api_errors_total",
                               'function=~"cu(da)?(Mem|Host|Malloc|Free).*"', PROGRAM)),
                    "{{comm}} {{script}} {{slurm_job_id}} {{function}} {{error}}"), shade="red"),
        timeseries("Mean size of what is held", "Bytes for each allocation that is not freed.", "bytes",
                   (f"{total('comm', bytes_held)}\n  / "
                    f"{total('comm', own('cuda_memory_outstanding_allocations', PROGRAM, GPU))}",
                    PROGRAM_NAME)),
    )


def _tensors():
    allocated = own("torch_memory_allocated_bytes", PROGRAM)
    reserved = own("torch_memory_reserved_bytes", PROGRAM)
    site = own("torch_memory_site_outstanding_bytes", PROGRAM)
    sites = top(30, total(BY_SITE, site))
    device_name = f"{PROCESS_NAME} {{{{device}}}}"
    return Row(
        "PyTorch's tensors",
        timeseries("In tensors", "What PyTorch's allocator of each process has given to tensors: its own sum, of the ten "
                   "that hold the most. Needs torch: {enabled: true}.", "bytes",
                   (lines(10, total(f"{BY_PROCESS}, device", allocated)), device_name), width=8),
        timeseries("Held by the allocator", "What the allocator holds of the device, in tensors and cached.", "bytes",
                   (lines(10, total(f"{BY_PROCESS}, device", reserved)), device_name), width=8),
        timeseries("Cached, in no tensor", "Held less in tensors. What stays after torch.cuda.empty_cache() is "
                   "fragmented.", "bytes",
                   (lines(10, f"({total(f'{BY_PROCESS}, device', reserved)}\n  - "
                              f"{total(f'{BY_PROCESS}, device', allocated)})"), device_name), width=8),
        table("Call sites of tensors", "Where in the program the tensors were allocated whose allocation was seen: the "
              "sites that hold the most in each process.",
              [*node_columns(), *program_columns(), Column("pid", "pid"), Column("site", "call site"),
               Column("Value #A", "held", "bytes"), Column("Value #B", "growth", "bytes", colors=WARNING_COLORS)],
              *within(BY_SITE, sites, growth(BY_SITE, site)), width=24, height=8, sort="held"),
        timeseries("Tensors held by process", "Blocks that were seen being allocated and are not freed: a leak of small "
                   "tensors shows here first.", "short",
                   (lines(10, total(BY_PROCESS, own("torch_memory_outstanding_allocations", PROGRAM))), PROCESS_NAME),
                   width=8),
        timeseries("Seen and held", "Bytes of these blocks. Less than what is in tensors for a program that ran before "
                   "the exporter.", "bytes",
                   (lines(10, total(BY_PROCESS, own("torch_memory_outstanding_bytes", PROGRAM))), PROCESS_NAME), width=8),
        timeseries("Refused", "Requests that the allocator refused: OutOfMemoryError in the program.", EACH_SECOND,
                   (total("comm, device", rate("torch_out_of_memory_total", PROGRAM)),
                    "{{comm}} {{script}} {{slurm_job_id}} {{device}}"), width=8, shade="red"),
        timeseries("Blocks", "Given out, given back, and given back without their allocation having been seen.",
                   EACH_SECOND,
                   (total("", rate("torch_memory_allocations_total", PROGRAM)), "allocations"),
                   (total("", rate("torch_memory_frees_total", PROGRAM)), "frees"),
                   (total("", rate("torch_memory_untracked_frees_total", PROGRAM)), "untracked frees")),
        timeseries("Bytes of blocks", "Given out and given back.", "binBps",
                   (total("", rate("torch_memory_allocation_bytes_total", PROGRAM)), "allocated"),
                   (total("", rate("torch_memory_free_bytes_total", PROGRAM)), "freed")),
        collapsed=True,
    )


def make():
    return dashboard(
        MEMORY, "CUDA memory and leaks",
        "Which programs hold GPU memory, where they allocated it, how old it is, and what they never gave "
        "back.",
        [_held(), _leaks(), _rates(), _tensors()], variables=[*program_variables("cuda_memory_allocations_total"), GPUS],
        annotations=[LOWER_BOUND])
