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
                        "Bytes requested by successful allocations.", {gpu, memory_kind}),
        .frees = set.counter("cuda_memory_frees_total",
                             "Successful frees of allocations that the exporter observed.",
                             {gpu, memory_kind}),
        .freed_bytes = set.counter("cuda_memory_freed_bytes_total",
                                   "Bytes released by the frees in cuda_memory_frees_total.",
                                   {gpu, memory_kind}),
        .untracked_frees =
            set.counter("cuda_memory_untracked_frees_total",
                        "Successful frees of memory whose allocation was not observed: it is older "
                        "than the exporter, its record was lost, or the memory was imported or "
                        "mapped (cudaMemPoolImportPointer, cudaExternalMemoryGetMappedBuffer).",
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
        .copies = set.counter("cuda_memcpy_total",
                              "Successful memory copies. mode=\"graph\": copies by launches of "
                              "graphs whose content is known.",
                              {direction, mode, gpu}),
        .bytes = set.counter("cuda_memcpy_bytes_total", "Bytes of successful memory copies.",
                             {direction, mode, gpu}),
        .seconds = set.counter("cuda_memcpy_seconds_total",
                               "Time inside successful copy calls. Asynchronous copies count the "
                               "time to submit them, copies by graphs none.",
                               {direction, mode, gpu}, nanoseconds_per_second),
        .bandwidth =
            set.histogram("cuda_memcpy_bandwidth_bytes_per_second",
                          "Bandwidth of each synchronous copy: its bytes divided by its duration.",
                          {direction}, bandwidth_bounds, kilobytes),
        .size =
            set.histogram("cuda_memcpy_size_bytes", "Size of each copy, except copies by graphs.",
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
        .launch_duration =
            set.histogram("cuda_kernel_launch_duration_seconds",
                          "Time inside each launch call that was traced in full, except launches "
                          "by graphs. This is not the run time of the kernel.",
                          {gpu}, duration_bounds, nanoseconds_per_second),
        .launch_threads =
            set.histogram("cuda_kernel_launch_threads",
                          "GPU threads of each launch by a call: the product of its grid and its "
                          "block.",
                          {gpu}, powers_of_four(1, std::uint64_t{1} << 34)),
        .unobserved =
            set.counter("cuda_launches_unobserved_seconds_total",
                        "Time in which kernel launches were not counted because the probes cost "
                        "their process more than cuda.max_overhead, summed over processes.",
                        {}, nanoseconds_per_second),
        .unobserved_launches =
            set.counter("cuda_launches_unobserved_total",
                        "Estimated kernel launches that were not counted because the probes cost "
                        "their process more than cuda.max_overhead. While launches are counted, "
                        "the exporter measures launches per other call (waits, copies, ...), or "
                        "per second if there are no other calls, and extrapolates.",
                        {gpu}),
        .unobserved_bounds =
            set.counter("cuda_launches_unobserved_bound_total",
                        "Bounds of the estimate cuda_launches_unobserved_total. bound=\"lower\": "
                        "if the program launches no faster while it is not observed; "
                        "bound=\"upper\": if a launch costs it twice the reported overhead. Both "
                        "equal the estimate for programs that make enough other calls.",
                        {{"bound", true}}),
    };
}

GraphFamilies make_graph_families(series::FamilySet &set) {
    return {
        .launches = set.counter(
            "cuda_graph_launches_total",
            "Successful launches of CUDA graphs. content=\"known\": the kernels, copies and "
            "memsets of the graph are counted; content=\"unknown\": they are in no other counter.",
            {{"content", true}, gpu}),
        .captured = set.counter(
            "cuda_graph_captured_total",
            "Calls on capturing streams: they were recorded into a graph and did not run.",
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
        "Refusals of GPU memory that the process did not get within a second. verdict: who held "
        "the memory: the process itself (own_use), others (neighbor), no traced process "
        "(not_accounted_for), or another cause. Consecutive refusals count once.",
        {gpu, {"verdict", true}});
}

series::Family &make_idle_family(series::FamilySet &set) {
    return set.counter("gpu_idle_held_seconds_total",
                       "Time in which a program held memory of the GPU without using it: for over "
                       "a minute, it had launched, copied and waited for nothing there. Excludes "
                       "time in which its launches were not observed. last_work=\"unknown\": it "
                       "did not wait for its last kernel, which may still run.",
                       {gpu, {"last_work", true}}, nanoseconds_per_second);
}

void make_cuda_families(series::FamilySet &set) {
    (void)make_memory_families(set);
    (void)make_copy_families(set);
    (void)make_launch_families(set);
    (void)make_graph_families(set);
    (void)make_event_families(set);
    (void)make_error_families(set);
    (void)make_out_of_memory_family(set);
    (void)make_idle_family(set);
    (void)make_overhead_family(set);
}

EventFamilies make_event_families(series::FamilySet &set) {
    return {
        .elapsed = set.histogram("cuda_event_elapsed_seconds",
                                 "Times between two events on a GPU that programs requested. The "
                                 "GPU measures them; the program decides what they include.",
                                 {}, elapsed_bounds, nanoseconds_per_second),
        .invalid = set.counter(
            "cuda_event_elapsed_invalid_total",
            "Impossible times between two events: negative, not a number, or longer than the "
            "machine has been running. They are not in cuda_event_elapsed_seconds.",
            {}),
    };
}

MemoryGauges make_memory_gauges(series::FamilySet &set) {
    return {
        .outstanding_bytes =
            set.gauge("cuda_memory_outstanding_bytes", "Live allocated bytes per running process.",
                      {gpu, memory_kind}),
        .outstanding_allocations =
            set.gauge("cuda_memory_outstanding_allocations",
                      "Live allocations per running process.", {gpu, memory_kind}),
        .peak_bytes = set.gauge("cuda_memory_peak_bytes",
                                "Maximum GPU memory held at one moment per running process, also "
                                "between scrapes. complete=\"false\": a lower bound.",
                                {gpu, {"complete", true}}),
        .owner_peak_bytes = set.add(
            {.name = "gpusnoop_cuda_memory_owner_peak_bytes",
             .help = "Maximum GPU memory held at one moment by all processes of a container or a "
                     "Slurm step together. complete=\"false\": a lower bound.",
             .type = Type::gauge,
             .labels =
                 {{"container_id"}, {"slurm_job_id"}, {"slurm_step_id"}, gpu, {"complete", true}}}),
        .aged_bytes = set.gauge("cuda_memory_outstanding_older_than_bytes",
                                "Outstanding bytes of allocations older than `age`. Cumulative: "
                                "bytes older than 1h are also in 10m.",
                                {{"age", true}}),
        .site_bytes =
            set.gauge("cuda_memory_site_outstanding_bytes",
                      "Outstanding bytes by call site, for the call sites that hold the most in "
                      "each running process; /api/v1/allocations has all of them.",
                      {{"site"}}),
    };
}

CopyGauges make_copy_gauges(series::FamilySet &set, bool by_stream) {
    return {
        .in_flight = set.gauge(
            "cuda_memcpy_async_in_flight_estimated_bytes",
            "Estimated bytes of asynchronous copies that were submitted and not waited for yet, "
            "per running process; with labels.stream in config.yaml, also per stream, numbered in "
            "the order of first use.",
            by_stream ? std::vector<series::Label>{{"stream"}} : std::vector<series::Label>()),
    };
}

series::Family &make_loss_gauge(series::FamilySet &set) {
    return set.gauge("cuda_launch_loss_factor",
                     "Time that a running process loses while its launches are observed, over the "
                     "reported cost. Only of processes observed intermittently, after 30 observed "
                     "periods. bound=\"lower\" and \"upper\": the 95% confidence interval.",
                     {{"bound", true}}, 1000);
}

ProcessGauges make_process_gauges(series::FamilySet &set) {
    return {
        .process_info =
            set.gauge("process_info",
                      "1 for each running process that has used CUDA. linkage: how it links the "
                      "CUDA runtime; complete=\"false\": it may have made calls before the probes "
                      "were attached, so the memory that it holds is a lower bound; "
                      "profiler=\"cupti\": a profiler in it uses CUPTI.",
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
                             .help = "1 for each GPU of the node: joins the label gpu with the "
                                     "UUID and the PCI address.",
                             .type = Type::gauge,
                             .labels = {{"gpu"}, {"uuid"}, {"pci_bus_id"}, {"name"}}}),
        .slurm_gpu = set.add({.name = "gpusnoop_slurm_job_gpu_info",
                              .help = "1 for each GPU that Slurm gave to a job with a running "
                                      "process, whether the job uses it or not.",
                              .type = Type::gauge,
                              .labels = {{"slurm_job_id"}, {"gpu"}}}),
    };
}

void make_cuda_gauges(series::FamilySet &set) {
    (void)make_memory_gauges(set);
    (void)make_copy_gauges(set, false);
    (void)make_loss_gauge(set);
    (void)make_process_gauges(set);
}

}  // namespace gpusnoop::probes
