#include "exporter/probes/functions/count/families.h"

#include "exporter/base/seconds.h"
#include "exporter/probes/frame/bpf/overhead.h"

namespace gpusnoop::probes {

namespace {

const std::vector<series::Label> of_function = {{"library"}, {"function"}};
const std::vector<series::Label> of_nccl_operation = {
    {"library"}, {"function"}, {"datatype"}, {"op"}, {"communicator"}, {"rank"}, {"nranks"}};
static_assert(communicator_label == 4);
const std::vector<series::Label> of_nccl_rank = {{"communicator"}, {"rank"}, {"nranks"}};

}  // namespace

std::vector<std::uint64_t> call_bounds(const FunctionOptions &options) {
    std::vector<std::uint64_t> bounds;
    for (const std::chrono::nanoseconds bound : options.buckets) {
        bounds.push_back(static_cast<std::uint64_t>(bound.count()));
    }
    return bounds;
}

series::Family &add_function_durations(series::FamilySet &set, std::vector<std::uint64_t> bounds) {
    return set.histogram(
        "function_duration_seconds",
        "Time inside each call of a traced function, including failed calls, until it returned "
        "or jumped to another function that returns in its place.",
        of_function, std::move(bounds), nanoseconds_per_second);
}

FunctionFamilies make_function_families(series::FamilySet &set) {
    return {
        .calls = set.counter("function_calls_total",
                             "Calls of traced functions that have ended; for functions traced at "
                             "their entry only, calls that have begun.",
                             of_function),
        .errors = set.counter("function_errors_total",
                              "Calls of traced functions that returned an error, by name of the "
                              "error.",
                              {{"library"}, {"function"}, {"error"}}),
        .slow_calls =
            set.counter("function_slow_calls_total",
                        "Calls that took at least the function's slow_threshold.", of_function),
        .nccl_operations = set.counter("nccl_operations_total",
                                       "Successful NCCL communication calls.", of_nccl_operation),
        .nccl_bytes = set.counter(
            "nccl_bytes_total",
            "Bytes that NCCL communication calls were asked to transfer: the number of elements "
            "times their size, for known datatypes.",
            of_nccl_operation),
        .unobserved = set.add(
            {.name = "gpusnoop_function_unobserved_seconds_total",
             .help =
                 "Time in which calls of the function were not observed, because they cost a "
                 "process more than cuda.max_overhead; summed over the places in libraries that "
                 "are shown as this function.",
             .type = series::Type::counter,
             .labels = of_function,
             .divisor = nanoseconds_per_second}),
        .overhead = make_overhead_family(set),
    };
}

FunctionGauges make_function_gauges(series::FamilySet &set) {
    return {
        .min = set.gauge("function_duration_min_seconds",
                         "Shortest call that ended in the last full minute.", of_function,
                         nanoseconds_per_second),
        .max = set.gauge("function_duration_max_seconds",
                         "Longest call that ended in the last full minute.", of_function,
                         nanoseconds_per_second),
    };
}

NcclGauges make_nccl_gauges(series::FamilySet &set) {
    return {
        .sequence = set.gauge(
            "nccl_sequence",
            "Number of collective operations that this rank has called on a communicator. All "
            "ranks call the same ones: the ranks with a higher number wait for a rank with a "
            "lower one.",
            of_nccl_rank),
        .last_operation =
            set.gauge("nccl_last_operation_timestamp_seconds",
                      "Unix time when the last collective operation returned, or when the "
                      "communicator was created if there was none.",
                      of_nccl_rank, nanoseconds_per_second),
    };
}

}  // namespace gpusnoop::probes
