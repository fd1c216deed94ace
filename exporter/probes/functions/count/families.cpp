#include "exporter/probes/functions/count/families.h"

#include "exporter/base/seconds.h"
#include "exporter/probes/frame/overhead.h"

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

series::Family &add_func_durations(series::FamilySet &set, std::vector<std::uint64_t> bounds) {
    return set.histogram(
        "function_duration_seconds",
        "Time inside each call of a traced function, calls that failed included, until "
        "it returned or jumped to another function that returns for it.",
        of_function, std::move(bounds), nanoseconds_per_second);
}

FunctionFamilies make_func_families(series::FamilySet &set) {
    return {
        .calls = set.counter("function_calls_total",
                             "Calls of traced functions that have ended; of those that are traced "
                             "at their entry only, calls that have begun.",
                             of_function),
        .errors = set.counter("function_errors_total",
                              "Calls of traced functions that returned an error, by its name.",
                              {{"library"}, {"function"}, {"error"}}),
        .slow_calls = set.counter("function_slow_calls_total",
                                  "Calls that took as long as the function's slow_threshold, or "
                                  "longer.",
                                  of_function),
        .nccl_operations = set.counter("nccl_operations_total",
                                       "Calls of NCCL's communicating functions that succeeded.",
                                       of_nccl_operation),
        .nccl_bytes = set.counter(
            "nccl_bytes_total",
            "Size of what the operations were asked to communicate: the call's number of elements "
            "times their size, of types that are known.",
            of_nccl_operation),
        .overhead = make_overhead_family(set),
    };
}

FunctionGauges make_func_gauges(series::FamilySet &set) {
    return {
        .min = set.gauge("function_duration_min_seconds",
                         "Shortest call that ended in the last whole minute.", of_function,
                         nanoseconds_per_second),
        .max = set.gauge("function_duration_max_seconds",
                         "Longest call that ended in the last whole minute.", of_function,
                         nanoseconds_per_second),
    };
}

NcclGauges make_nccl_gauges(series::FamilySet &set) {
    return {
        .sequence = set.gauge(
            "nccl_sequence",
            "Collective operations of a communicator that this rank has made. All ranks make the "
            "same ones: a rank whose number is lower is the one that the others wait for.",
            of_nccl_rank),
        .last_operation =
            set.gauge("nccl_last_operation_timestamp_seconds",
                      "When the last of these operations returned, or the communicator was made.",
                      of_nccl_rank, nanoseconds_per_second),
    };
}

}  // namespace gpusnoop::probes
