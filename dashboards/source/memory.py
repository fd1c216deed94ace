"""CUDA memory: who holds it, who allocates, and who does not give it back."""

from .common import LOWER_BOUND, MEMORY, WARNING_COLORS, dashboard, node_cell, program_variable
from .model import Column, Row, stat, table, timeseries
from .promql import PROGRAM, in_pod, increase, own, rate, top, total

BY_PROCESS = "instance, comm, container_id, pid"
PROCESS_NAME = "{{comm}} {{pid}} on {{instance}}"


def _held():
    bytes_held = own("cuda_memory_outstanding_bytes", PROGRAM)
    return Row(
        "Held now",
        stat("Memory held", "Allocated and not freed, of every kind of memory.", "bytes",
             total("", bytes_held), width=6),
        stat("Allocations held", "Allocations that are not freed.", "short",
             total("", own("cuda_memory_outstanding_allocations", PROGRAM)), width=6),
        stat("Older than an hour", "What is held and was allocated more than an hour ago.", "bytes",
             total("", own("cuda_memory_outstanding_older_than_bytes", 'age="1h"', PROGRAM)), width=6),
        stat("Frees of untracked memory", "Frees of memory that was allocated before the exporter "
             "started, or whose record was lost.", "ops",
             total("", rate("cuda_memory_untracked_frees_total", PROGRAM)), width=6,
             colors=WARNING_COLORS),
        timeseries("Memory held by process", "Allocated and not freed, of the ten that hold the most. "
                   "A line that only climbs is a leak.", "bytes",
                   (top(10, total(BY_PROCESS, bytes_held)), PROCESS_NAME)),
        timeseries("Memory held by kind", "device: cudaMalloc; async: stream-ordered; managed: "
                   "unified; pinned_host: host memory that is locked; vmm: with handles (cuMemCreate).",
                   "bytes", (total("memory_kind", bytes_held), "{{memory_kind}}"), width=6, stack=True),
        timeseries("Memory held by GPU", "gpu is the host's index, or unknown.", "bytes",
                   (total("instance, gpu", bytes_held), "{{instance}} gpu {{gpu}}"), width=6,
                   stack=True),
        timeseries("Allocations held by process", "Many small allocations that are not freed show here "
                   "before they show in bytes.", "short",
                   (top(10, total(BY_PROCESS,
                                  own("cuda_memory_outstanding_allocations", PROGRAM))),
                    PROCESS_NAME)),
        timeseries("Mean size of what is held", "Bytes for each allocation that is not freed.", "bytes",
                   (f"{total('comm', bytes_held)}\n  / "
                    f"{total('comm', own('cuda_memory_outstanding_allocations', PROGRAM))}",
                    "{{comm}}")),
    )


def _leaks():
    site = own("cuda_memory_site_outstanding_bytes", PROGRAM)
    return Row(
        "Leaks",
        timeseries("Memory by age", "What is held and older than a minute, ten minutes, an hour. "
                   "Where the last one climbs with the others, nothing is given back.", "bytes",
                   (total("age", own("cuda_memory_outstanding_older_than_bytes", PROGRAM)),
                    "older than {{age}}")),
        timeseries("Old memory by process", "What is held and older than an hour, of the ten that "
                   "hold the most.", "bytes",
                   (top(10, total(BY_PROCESS,
                                  own("cuda_memory_outstanding_older_than_bytes", 'age="1h"', PROGRAM))),
                    PROCESS_NAME)),
        table("Call sites", "Where in the program the memory that is held was allocated: the sites that "
              "hold the most in each process. All of them, with stacks, are at /api/v1/allocations "
              "of the node. Namespaces and pods need kube-state-metrics.",
              [Column("instance", "node", link=node_cell()),
               Column("comm", "program"),
               Column("namespace", "namespace"),
               Column("pod", "pod"),
               Column("pid", "pid"),
               Column("site", "call site"),
               Column("Value #A", "held", "bytes"),
               Column("Value #B", "growth in this range", "bytes", colors=WARNING_COLORS)],
              in_pod(top(30, total("instance, comm, container_id, pid, site", site))),
              total("instance, comm, container_id, pid, site", f"delta({site}[$__range])"),
              width=24, height=10, sort="held"),
        timeseries("Not freed at exit", "Bytes that programs had not freed when they ended.", "bytes",
                   (total("comm", increase("cuda_memory_unfreed_at_exit_bytes_total", PROGRAM,
                                           over="$__rate_interval")), "{{comm}}")),
        timeseries("Allocations not freed at exit", "How many allocations programs had not freed when "
                   "they ended.", "short",
                   (total("comm", increase("cuda_memory_unfreed_at_exit_allocations_total", PROGRAM,
                                           over="$__rate_interval")), "{{comm}}")),
    )


def _rates():
    return Row(
        "Allocating and freeing",
        timeseries("Allocations", "Successful allocations per second, by program.", "ops",
                   (top(10, total("comm", rate("cuda_memory_allocations_total", PROGRAM))),
                    "{{comm}}"), width=8),
        timeseries("Frees", "Successful frees per second of memory whose allocation was seen, by "
                   "program.", "ops",
                   (top(10, total("comm", rate("cuda_memory_frees_total", PROGRAM))), "{{comm}}"),
                   width=8),
        timeseries("Frees of untracked memory by program", "Memory from before the exporter's start. Later on it should "
                   "be none.", "ops",
                   (top(10, total("comm", rate("cuda_memory_untracked_frees_total", PROGRAM))),
                    "{{comm}}"), width=8),
        timeseries("Allocated", "Bytes asked for per second, by kind of memory.", "Bps",
                   (total("memory_kind", rate("cuda_memory_allocated_bytes_total", PROGRAM)), "{{memory_kind}}"),
                   width=8),
        timeseries("Freed", "Bytes given back per second, by kind of memory.", "Bps",
                   (total("memory_kind", rate("cuda_memory_freed_bytes_total", PROGRAM)), "{{memory_kind}}"),
                   width=8),
        timeseries("Growth", "Allocated less freed: what the memory that is held grows by.", "Bps",
                   (f"{total('comm', rate('cuda_memory_allocated_bytes_total', PROGRAM))}\n  - "
                    f"{total('comm', rate('cuda_memory_freed_bytes_total', PROGRAM))}", "{{comm}}"),
                   width=8, minimum=None),
        timeseries("Failing allocations", "Allocations that returned an error, such as "
                   "cudaErrorMemoryAllocation.", "ops",
                   (total("comm, function, error",
                          rate("cuda_api_errors_total",
                               'function=~"cu(da)?(Mem|Host|Malloc|Free).*"', PROGRAM)),
                    "{{comm}} {{function}} {{error}}"), width=24),
    )


def make():
    return dashboard(
        MEMORY, "CUDA memory and leaks",
        "Which programs hold GPU memory, where they allocated it, how old it is, and what they never gave "
        "back.",
        [_held(), _leaks(), _rates()], variables=[program_variable("cuda_memory_allocations_total")],
        annotations=[LOWER_BOUND])
