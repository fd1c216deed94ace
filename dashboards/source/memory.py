"""CUDA memory: who holds it, who allocates it, and who does not free it."""

from . import tiles
from .common import (ERROR_COLORS, FAILED, GPUS, GROWTH_COLORS, LOWER_BOUND, MEMORY, NEEDS_DCGM, dashboard, known_column, node_columns, pid_column,
                     program_columns, program_variables)
from .model import Row
from .panels import EACH_SECOND, Column, stat, table, timeseries
from .promql import (GPU, NODE, NODE_NAME, ON_GPU, PROGRAM, PROGRAM_NAME, grown, growth, growth_of_each, happened, highest, lines, own, rate, recorded,
                     top, total, within, zero)

BY_PROCESS = "instance, comm, container_id, pid"
BY_PROCESS_AND_GPU = f"{BY_PROCESS}, gpu"
PROCESS_NAME = f"{PROGRAM_NAME} {{{{pid}}}} {{{{node}}}}"
BY_SITE = "instance, comm, container_id, pid, at"


def of_sites(family):
    """By process and call site, without PyTorch's allocator at its top, which is the same for all: a table's column cuts
    off the end, which is the program's own code."""
    site = f'label_replace({own(family, PROGRAM)}, "at", "$1", "site", "(.+)")'
    return f'label_replace({site}, "at", "$1", "site", "(?:c10::cuda::CUDACachingAllocator::[^ ]+ < )+(.+)")'



def _held():
    of_gpus = own("cuda_memory_outstanding_bytes", ON_GPU, PROGRAM, GPU)
    old = own("cuda_memory_outstanding_older_than_bytes", 'age="1h"', PROGRAM)
    on_each = total("instance, gpu", of_gpus)
    there = f"sum by ({NODE}, gpu) ({recorded('gpu:device_memory_total_bytes:sum', GPU)})"
    site = of_sites("cuda_memory_site_outstanding_bytes")
    sites = top(30, total(BY_SITE, site))
    return Row(
        "Now",
        tiles.memory_held(of_gpus),
        stat("Share of the GPUs", "GPU memory held, as a share of the memory of the GPUs that it is on. Needs dcgm-exporter "
             "and the recording rules.", "percentunit",
             f"sum({on_each} and on ({NODE}, gpu) {there})\n  / sum({there} and on ({NODE}, gpu) {on_each})", nothing=NEEDS_DCGM),
        stat("Largest growth of one process", "The process whose GPU memory grew most in this range. Processes that started "
             "within the range count as 0. Orange from the growth that raises a leak alert.", "bytes",
             (top(1, growth_of_each(BY_PROCESS, of_gpus)), f"{PROGRAM_NAME} {{{{node}}}}"), colors=GROWTH_COLORS,
             text="value_and_name", width=8, nothing="no process"),
        stat("Older than an hour", "Allocated more than an hour ago and not freed, including pinned host memory.",
             "bytes", zero(total("", old))),
        stat("Pinned host memory", "Host memory that is locked for copies.", "bytes",
             zero(total("", own("cuda_memory_outstanding_bytes", 'memory_kind="pinned_host"', PROGRAM, GPU)))),
        timeseries("GPU memory held by process", "Allocated and not freed, of the ten processes that hold the most. A line that "
                   "only climbs is a leak.", "bytes", (lines(10, total(BY_PROCESS, of_gpus)), PROCESS_NAME)),
        timeseries("Memory older than an hour, by process", "Allocated more than an hour ago and not freed, of the ten processes "
                   "that hold the most. If it climbs hour after hour, the process leaks.", "bytes",
                   (lines(10, total(BY_PROCESS, old)), PROCESS_NAME)),
        table("Call sites", "Where the memory that is held was allocated: the 30 call sites that hold the most, the innermost "
              "function first, without the allocator's own. A pid leads to all allocations of the process with whole stacks.",
              [*node_columns(),
               *program_columns(script=160),
               pid_column(),
               Column("at", "call site"),
               Column("Value #A", "held", "bytes"),
               Column("Value #B", "growth", "bytes", colors=GROWTH_COLORS)],
              *within(BY_SITE, sites, growth(BY_SITE, site)),
              width=24, height=9, sort=("growth", "held")),
    )


def _where():
    bytes_held = own("cuda_memory_outstanding_bytes", PROGRAM, GPU)
    of_gpus = own("cuda_memory_outstanding_bytes", ON_GPU, PROGRAM, GPU)
    unfreed = total("instance, comm", grown("cuda_memory_unfreed_at_exit_bytes_total", PROGRAM, GPU))
    return Row(
        "Where it is held",
        timeseries("GPU memory held by GPU", "GPU is the index on the node, or unknown.", "bytes",
                   (total("instance, gpu", of_gpus), "GPU {{gpu}} {{node}} {{cluster}}")),
        timeseries("Memory held by kind", "device: cudaMalloc; async: stream-ordered; managed: "
                   "unified; pinned_host: locked host memory; vmm: handles (cuMemCreate).",
                   "bytes", (total("memory_kind", bytes_held), "{{memory_kind}}"), stack=True),
        timeseries("Live allocations by process", "A leak of many small allocations shows here before it shows in bytes.",
                   "short", (lines(10, total(BY_PROCESS, own("cuda_memory_outstanding_allocations", PROGRAM, GPU))),
                             PROCESS_NAME), width=24),
        table("Peak GPU memory by process", "The 30 running processes that have held the most of one GPU at one moment, also "
              "between scrapes, and what they hold now. If the memory was seen only in part, the peak may have been higher.",
              [*node_columns(), *program_columns(script=160), pid_column(), Column("gpu", "GPU"), known_column(),
               Column("Value #A", "peak", "bytes"), Column("Value #B", "held now", "bytes")],
              *within(BY_PROCESS_AND_GPU,
                      top(30, highest(f"{BY_PROCESS_AND_GPU}, complete", own("cuda_memory_peak_bytes", PROGRAM, GPU))),
                      total(BY_PROCESS_AND_GPU, of_gpus)),
              width=24, height=8, sort="peak"),
        table("Unfreed memory at process exit", "Memory that programs had not freed when they exited in this range. The driver "
              "releases it: these programs do not clean up, or were killed.",
              [*node_columns(), *program_columns(), Column("Value #A", "bytes", "bytes"),
               Column("Value #B", "allocations")],
              *within("instance, comm", top(20, f"{unfreed} > 0"),
                      total("instance, comm", grown("cuda_memory_unfreed_at_exit_allocations_total", PROGRAM, GPU))),
              width=24, height=6, sort="bytes", nothing="no program left memory unfreed"),
        table("Out of memory", "Programs that were refused GPU memory in this range, and did not get it within a second. Verdict: "
              "who held the memory. gpusnoop_exporter why --oom on the node has the details.",
              [*node_columns(), *program_columns(), Column("gpu", "GPU"), Column("verdict", "verdict"),
               Column("Value", "times", "short", colors=ERROR_COLORS)],
              top(50, happened("instance, comm, gpu, verdict", "cuda_out_of_memory_total", PROGRAM, GPU)),
              width=24, height=6, nothing="no program ran out of memory"),
    )


def _rates():
    allocated, freed = (total("comm", rate(f"cuda_memory_{name}_bytes_total", PROGRAM, GPU)) for name in ("allocated", "freed"))
    return Row(
        "Allocations and frees",
        timeseries("Allocations", "Successful allocations by program. An allocation in each step costs time.", EACH_SECOND,
                   (lines(10, total("comm", rate("cuda_memory_allocations_total", PROGRAM, GPU))), PROGRAM_NAME)),
        timeseries("Net allocation rate", "Bytes allocated less bytes freed per second, by program. Above 0 for hours is a leak.",
                   "binBps", (lines(10, f"({allocated}\n  - {freed})"), PROGRAM_NAME), minimum=None),
        timeseries("Failing allocations", "Allocations that returned an error, such as cudaErrorMemoryAllocation.", EACH_SECOND,
                   (total("comm, function, error",
                          rate("cuda_api_errors_total", FAILED,
                               'function=~"cu(da)?(Malloc|Mem(Alloc|Create|Host|Map)|Host(Alloc|Register)).*"', PROGRAM)),
                    f"{PROGRAM_NAME} {{{{function}}}} {{{{error}}}}"), alarm="red"),
        timeseries("Frees of untracked memory", "Frees of memory that was allocated before the exporter started. Later on there "
                   "should be none, or the exporter misses allocations.", EACH_SECOND,
                   (lines(10, total("comm", rate("cuda_memory_untracked_frees_total", PROGRAM, GPU))),
                    PROGRAM_NAME), alarm="orange"),
        collapsed=True,
    )


def _tensors():
    allocated = own("torch_memory_allocated_bytes", PROGRAM)
    reserved = own("torch_memory_reserved_bytes", PROGRAM)
    site = of_sites("torch_memory_site_outstanding_bytes")
    sites = top(30, total(BY_SITE, site))
    device_name = f"{PROCESS_NAME} {{{{device}}}}"
    by_device = f"{BY_PROCESS}, device"
    return Row(
        "PyTorch tensors",
        timeseries("Memory in tensors", "Memory that PyTorch's allocator has handed out, by its own count, of the ten processes "
                   "with the most. Needs torch: {enabled: true}.", "bytes",
                   (lines(10, total(by_device, allocated)), device_name)),
        timeseries("Peak memory in tensors", "The most that PyTorch's allocator has handed out to each process since the exporter "
                   "has observed it, of the ten processes with the most: what they need.", "bytes",
                   (lines(10, total(by_device, own("torch_memory_peak_allocated_bytes", PROGRAM))), device_name)),
        timeseries("Cached by PyTorch, in no tensor", "Memory that the allocator holds but has not handed out. What remains after "
                   "torch.cuda.empty_cache() is fragmented.", "bytes",
                   (lines(10, f"({total(by_device, reserved)}\n  - {total(by_device, allocated)})"), device_name)),
        table("Call sites of tensors", "Where tensors that still exist were allocated: the 30 call sites that hold the most. "
              "Tensors from before the exporter's start are not included. With torch: {sampling: true}, estimates of lines of "
              "Python: of 100, 95 are off by no more than the column says.",
              [*node_columns(), *program_columns(), Column("pid", "pid"), Column("at", "call site"),
               Column("Value #A", "held", "bytes"), Column("Value #C", "off by at most", "bytes"),
               Column("Value #B", "growth", "bytes", colors=GROWTH_COLORS)],
              *within(BY_SITE, sites, growth(BY_SITE, site), total(BY_SITE, of_sites("torch_memory_site_error_bytes"))),
              width=24, height=8, sort=("growth", "held")),
        timeseries("Live tensor blocks by process", "A leak of small tensors shows here before it shows in bytes.", "short",
                   (lines(10, total(BY_PROCESS, own("torch_memory_outstanding_allocations", PROGRAM))), PROCESS_NAME)),
        timeseries("Out-of-memory errors in PyTorch", "Requests that the allocator refused: OutOfMemoryError in the program.",
                   EACH_SECOND,
                   (total("comm, device", rate("torch_out_of_memory_total", PROGRAM)),
                    f"{PROGRAM_NAME} {{{{device}}}}"), alarm="red"),
        timeseries("Tensor allocations by program", "Blocks that the allocator hands out.", EACH_SECOND,
                   (lines(10, total("comm", rate("torch_memory_allocations_total", PROGRAM))), PROGRAM_NAME)),
        timeseries("Net rate of tensor memory", "Bytes handed out less bytes returned per second, by program.", "binBps",
                   (lines(10, f"({total('comm', rate('torch_memory_allocation_bytes_total', PROGRAM))}\n  - "
                              f"{total('comm', rate('torch_memory_free_bytes_total', PROGRAM))})"), PROGRAM_NAME), minimum=None),
        collapsed=True,
    )


def make():
    return dashboard(
        MEMORY, "CUDA memory and leaks",
        "Which programs hold GPU memory, where they allocated it, how old it is, and what they did not free.",
        [_held(), _where(), _rates(), _tensors()], variables=[*program_variables("cuda_memory_allocations_total"), GPUS],
        annotations=[LOWER_BOUND])
