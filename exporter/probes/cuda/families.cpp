#include "exporter/probes/cuda/families.h"

#include "exporter/base/seconds.h"
#include "exporter/probes/frame/bpf/overhead.h"

namespace gpusnoop::probes {

namespace {

using series::Label;
using series::Type;

// The divisor of the raw unit.
constexpr double kilobytes = 1e-3;

// 1 us to 10 s. A call that only submits work takes microseconds; a call that waits takes as long
// as the work.
const std::vector<std::uint64_t> duration_bounds = {
    1'000,         2'500,         5'000,         10'000,        25'000,      50'000,
    100'000,       250'000,       500'000,       1'000'000,     2'500'000,   5'000'000,
    10'000'000,    25'000'000,    50'000'000,    100'000'000,   250'000'000, 500'000'000,
    1'000'000'000, 2'500'000'000, 5'000'000'000, 10'000'000'000};

// 10 us to 5 min: from a kernel to an epoch. The resolution of events is half a microsecond.
const std::vector<std::uint64_t> elapsed_bounds = {
    10'000,         25'000,         50'000,         100'000,         250'000,        500'000,
    1'000'000,      2'500'000,      5'000'000,      10'000'000,      25'000'000,     50'000'000,
    100'000'000,    250'000'000,    500'000'000,    1'000'000'000,   2'500'000'000,  5'000'000'000,
    10'000'000'000, 30'000'000'000, 60'000'000'000, 120'000'000'000, 300'000'000'000};

std::vector<std::uint64_t> powers_of_four(std::uint64_t first, std::uint64_t last) {
    std::vector<std::uint64_t> bounds;
    for (std::uint64_t bound = first; bound <= last; bound *= 4) {
        bounds.push_back(bound);
    }
    return bounds;
}

// In kB/s, as their sum would overflow in B/s within days: close where links and generations of
// PCIe differ, and one bound each for copies that are too small for that, and for memory of a
// device.
const std::vector<std::uint64_t> bandwidth_bounds = {100'000,    1'000'000,   2'500'000,
                                                     5'000'000,  10'000'000,  25'000'000,
                                                     50'000'000, 100'000'000, 500'000'000};

const Label gpu{"gpu", true};
const Label memory_kind{"memory_kind", true};
const Label direction{"direction", true};
const Label mode{"mode", true};

}  // namespace

MemoryFamilies make_memory_families(series::FamilySet &set) {
    return {
        .allocations =
            set.counter("cuda_memory_allocations_total",
                        "Successful allocations of GPU or GPU-visible memory.", {gpu, memory_kind}),
        .allocated_bytes =
            set.counter("cuda_memory_allocated_bytes_total",
                        "Bytes asked for by successful allocations.", {gpu, memory_kind}),
        .frees = set.counter("cuda_memory_frees_total",
                             "Successful frees of allocations that were seen being made.",
                             {gpu, memory_kind}),
        .freed_bytes = set.counter("cuda_memory_freed_bytes_total",
                                   "Bytes given back by the frees in cuda_memory_frees_total.",
                                   {gpu, memory_kind}),
        .untracked_frees = set.counter(
            "cuda_memory_untracked_frees_total",
            "Successful frees of memory whose allocation was not seen: it is older than the "
            "exporter, its record was lost, or the memory was imported or mapped "
            "(cudaMemPoolImportPointer, cudaExternalMemoryGetMappedBuffer).",
            {gpu, memory_kind}),
        .unfreed_bytes = set.counter("cuda_memory_unfreed_at_exit_bytes_total",
                                     "Bytes that processes had not freed when they ended.", {gpu}),
        .unfreed_allocations =
            set.counter("cuda_memory_unfreed_at_exit_allocations_total",
                        "Allocations that processes had not freed when they ended.", {gpu}),
    };
}

CopyFamilies make_copy_families(series::FamilySet &set) {
    return {
        .copies =
            set.counter("cuda_memcpy_total",
                        "Successful memory copies; mode=\"graph\": by launches of graphs whose "
                        "content is known.",
                        {direction, mode, gpu}),
        .bytes = set.counter("cuda_memcpy_bytes_total", "Bytes of successful memory copies.",
                             {direction, mode, gpu}),
        .seconds = set.counter("cuda_memcpy_seconds_total",
                               "Time inside successful copy calls: of async copies, only the time "
                               "to submit them. Copies "
                               "of graphs have none.",
                               {direction, mode, gpu}, nanoseconds_per_second),
        .bandwidth = set.histogram("cuda_memcpy_bandwidth_bytes_per_second",
                                   "Bytes over duration of each synchronous copy.", {direction},
                                   bandwidth_bounds, kilobytes),
        .size = set.histogram("cuda_memcpy_size_bytes", "Size of each copy outside of graphs.",
                              {direction}, powers_of_four(64, std::uint64_t{1} << 36)),
        .duration =
            set.histogram("cuda_memcpy_duration_seconds", "Time inside each synchronous copy call.",
                          {direction}, duration_bounds, nanoseconds_per_second),
        .sets = set.counter("cuda_memset_total", "Successful memsets of GPU memory.", {mode, gpu}),
        .set_bytes =
            set.counter("cuda_memset_bytes_total", "Bytes of successful memsets.", {mode, gpu}),
    };
}

LaunchFamilies make_launch_families(series::FamilySet &set) {
    return {
        .launches = set.counter(
            "cuda_kernel_launches_total",
            "Kernels launched, by kernel and shape (XxYxZ); via=\"stream\": by a call; "
            "via=\"graph\": by a launch of a graph whose content is known.",
            {{"kernel"}, {"grid", false, true}, {"block", false, true}, {"via", true}, gpu}),
        .launch_duration = set.histogram(
            "cuda_kernel_launch_duration_seconds",
            "Time inside each launch call that was traced in full, not the kernel's own run time; "
            "without launches by graphs.",
            {gpu}, duration_bounds, nanoseconds_per_second),
        .launch_threads =
            set.histogram("cuda_kernel_launch_threads",
                          "GPU threads of each launch by a call: the product of its grid and its "
                          "block.",
                          {gpu}, powers_of_four(1, std::uint64_t{1} << 34)),
        .unobserved = set.counter("cuda_launches_unobserved_seconds_total",
                                  "Time in which kernel launches of the processes, added up, were "
                                  "not counted, as the probes "
                                  "cost them more than cuda.max_overhead.",
                                  {}, nanoseconds_per_second),
        .unobserved_launches =
            set.counter("cuda_launches_unobserved_total",
                        "Estimate of the kernel launches that were not counted, as the probes cost "
                        "their process more than cuda.max_overhead. From the times in which they "
                        "were: launches for each wait, copy and other call, which are always "
                        "counted; without such calls, launches per second.",
                        {gpu}),
        .unobserved_bounds = set.counter(
            "cuda_launches_unobserved_bound_total",
            "Bounds of that estimate. bound=\"lower\": the program launches no faster while it is "
            "not "
            "observed; bound=\"upper\": a launch costs it twice what is reported. Both equal the "
            "estimate for programs that make enough other calls.",
            {{"bound", true}}),
    };
}

GraphFamilies make_graph_families(series::FamilySet &set) {
    return {
        .launches = set.counter(
            "cuda_graph_launches_total",
            "Successful launches of CUDA graphs. Of content=\"known\", the kernels, copies and "
            "memsets are counted; what content=\"unknown\" runs is in no other counter.",
            {{"content", true}, gpu}),
        .captured = set.counter(
            "cuda_graph_captured_total",
            "Calls on capturing streams, which were recorded into a graph and did not run.",
            {{"operation", true}}),
    };
}

ErrorFamilies make_error_families(series::FamilySet &set) {
    return {
        .errors = set.counter("cuda_api_errors_total",
                              "CUDA calls that returned an error, by the error's name.",
                              {{"function"}, {"error"}}),
    };
}

series::Family &make_out_of_memory_family(series::FamilySet &set) {
    return set.counter(
        "cuda_out_of_memory_total",
        "Times that a process was refused GPU memory and did not get it within a second, by who "
        "holds the memory: the process itself (own_use), others (neighbor), no traced process "
        "(not_accounted_for), or other causes. Refusals that follow each other count once.",
        {gpu, {"verdict", true}});
}

void make_cuda_families(series::FamilySet &set) {
    (void)make_memory_families(set);
    (void)make_copy_families(set);
    (void)make_launch_families(set);
    (void)make_graph_families(set);
    (void)make_event_families(set);
    (void)make_error_families(set);
    (void)make_out_of_memory_family(set);
    (void)make_overhead_family(set);
}

EventFamilies make_event_families(series::FamilySet &set) {
    return {
        .elapsed = set.histogram(
            "cuda_event_elapsed_seconds",
            "Times between two events on a GPU, as programs asked for them: what a program chose "
            "to time, measured by the GPU.",
            {}, elapsed_bounds, nanoseconds_per_second),
        .invalid = set.counter(
            "cuda_event_elapsed_invalid_total",
            "Times between two events that cannot be: negative, not a number, or longer than the "
            "machine has been running. They are not in cuda_event_elapsed_seconds.",
            {}),
    };
}

MemoryGauges make_memory_gauges(series::FamilySet &set) {
    return {
        .outstanding_bytes = set.gauge(
            "cuda_memory_outstanding_bytes",
            "Bytes allocated and not freed now, of each running process.", {gpu, memory_kind}),
        .outstanding_allocations =
            set.gauge("cuda_memory_outstanding_allocations",
                      "Allocations not freed now, of each running process.", {gpu, memory_kind}),
        .aged_bytes =
            set.gauge("cuda_memory_outstanding_older_than_bytes",
                      "Outstanding bytes that were allocated longer ago than age. Cumulative: "
                      "the bytes of 1h are in 10m too.",
                      {{"age", true}}),
        .site_bytes = set.gauge(
            "cuda_memory_site_outstanding_bytes",
            "Outstanding bytes by where in the program they were allocated, of the call sites that "
            "hold the most in each running process; /api/v1/allocations has all.",
            {{"site"}}),
    };
}

CopyGauges make_copy_gauges(series::FamilySet &set, bool by_stream) {
    return {
        .in_flight = set.gauge(
            "cuda_memcpy_async_in_flight_estimated_bytes",
            "Estimate of the bytes of async copies that were submitted and not waited for yet, of "
            "each running process; with labels.stream in config.yaml, by its streams, numbered in "
            "the order of first use.",
            by_stream ? std::vector<series::Label>{{"stream"}} : std::vector<series::Label>()),
    };
}

ProcessGauges make_process_gauges(series::FamilySet &set) {
    return {
        .process_info = set.gauge(
            "process_info",
            "1 for each running process that has used CUDA; linkage: how it has the CUDA runtime; "
            "complete=\"false\": it may have made calls before the probes were attached, so what "
            "it holds is a lower bound; profiler=\"cupti\": a profiler in it uses CUPTI.",
            {{"exe"},
             {"pod_uid"},
             {"uid"},
             {"user"},
             {"slurm_step_id"},
             {"systemd_unit"},
             {"linkage", true},
             {"complete", true},
             {"profiler"}}),
        .gpu_info = set.add({.name = "gpusnoop_gpu_info",
                             .help = "1 for each GPU of the node: what the label gpu stands for.",
                             .type = Type::gauge,
                             .labels = {{"gpu"}, {"uuid"}, {"pci_bus_id"}, {"name"}}}),
        .slurm_gpu = set.add({.name = "gpusnoop_slurm_job_gpu_info",
                              .help = "1 for each GPU that Slurm has given to a job with a running "
                                      "process, used or not.",
                              .type = Type::gauge,
                              .labels = {{"slurm_job_id"}, {"gpu"}}}),
    };
}

void make_cuda_gauges(series::FamilySet &set) {
    (void)make_memory_gauges(set);
    (void)make_copy_gauges(set, false);
    (void)make_process_gauges(set);
}

}  // namespace gpusnoop::probes
