#include "bench/call_cost/ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "bench/call_cost/child.h"
#include "bench/call_cost/others.h"
#include "bench/call_cost/programs.h"
#include "bpf/cuda/cuda.h"
#include "bpf/functions/functions.h"

namespace gpusnoop::bench {

using ebpf::AttachMode;

namespace {

constexpr const char *both_layers = "runtime and driver";
constexpr const char *runtime_layer = "runtime only";
constexpr const char *driver_layer = "driver only";

std::string name_of(AttachMode mode) {
    return std::string(ebpf::to_string(mode)) + (mode == AttachMode::session ? "" : " pair");
}

class Builder {
public:
    explicit Builder(const Libraries &libraries) : libraries_(libraries) {
        ways_.push_back({"untraced", Way::Kind::untraced, &libraries.both, {}, [](const Library &) {
                             return std::unique_ptr<Tracing>();
                         }});
    }

    // Returns its index.
    std::size_t add_empty(AttachMode mode, const Library &library, const std::string &layers) {
        ways_.push_back({"empty, " + name_of(mode) + ", " + layers, Way::Kind::empty, &library,
                         library.traced(),
                         [mode](const Library &copy) { return trace_with_nothing(mode, copy); }});
        return ways_.size() - 1;
    }

    // Only the entries of launches of the driver, in whatever they are made.
    std::size_t add_least_count(bool by_shape, const Library &library, std::size_t floor) {
        ways_.push_back(
            {by_shape ? "least counter of each kernel and shape, driver's entry"
                      : "least counter, driver's entry",
             Way::Kind::least,
             &library,
             {"cudaLaunchKernel", "cuLaunchKernel"},
             [=](const Library &copy) { return trace_with_least_counter(by_shape, copy); },
             floor});
        return ways_.size() - 1;
    }

    // Those of the probe cuda, if `keeps_stacks`, or else of the probe functions.
    std::size_t add_least(bool keeps_stacks, const Library &library, const std::string &layers,
                          std::size_t floor) {
        const std::size_t bytes =
            keeps_stacks ? sizeof(cuda_copy_record) : sizeof(func_call_record);
        ways_.push_back(
            {fmt::format("least record ({} bytes), session, {}", bytes, layers), Way::Kind::least,
             &library, library.traced(),
             [=](const Library &copy) { return trace_with_least(bytes, keeps_stacks, copy); },
             floor});
        return ways_.size() - 1;
    }

    std::size_t add_cuda(AttachMode mode, bool call_stacks, const Library &library,
                         const std::string &layers, std::size_t floor,
                         Way::Job job = Way::Job::none, std::optional<std::size_t> least = {}) {
        ways_.push_back(
            {"cuda, " + name_of(mode) + ", " + layers + (call_stacks ? "" : ", no call stacks"),
             Way::Kind::ours, &library, library.traced(),
             [=](const Library &copy) {
                 return trace_with_cuda(mode, {.call_stacks = call_stacks}, copy);
             },
             floor, job, true, least});
        return ways_.size() - 1;
    }

    void add_python(const Library &library, std::size_t floor) {
        ways_.push_back(
            {fmt::format("cuda, session, {}, {} Python functions", both_layers, python_functions),
             Way::Kind::ours,
             &library,
             {"cudaMalloc"},
             [](const Library &copy) {
                 return trace_with_cuda(AttachMode::session, {.is_python = true}, copy);
             },
             floor});
    }

    // `full`: the index of the way that sees the same launches to their end.
    void add_counted(const Library &library, std::size_t full, std::size_t least,
                     std::size_t least_of_many) {
        ways_.push_back({"cuda, launches counted, driver's entry",
                         Way::Kind::ours,
                         &library,
                         {"cudaLaunchKernel", "cuLaunchKernel"},
                         [](const Library &copy) {
                             return trace_with_cuda(AttachMode::session, {.counts_launches = true},
                                                    copy);
                         },
                         full,
                         Way::Job::count,
                         true,
                         least,
                         least_of_many});
    }

    void add_func(AttachMode mode, const Library &library, const std::string &layers,
                  std::size_t floor, Way::Job job = Way::Job::none,
                  std::optional<std::size_t> least = {}) {
        ways_.push_back({"functions, " + name_of(mode) + ", " + layers, Way::Kind::ours, &library,
                         library.traced(),
                         [=](const Library &copy) { return trace_with_functions(mode, copy); },
                         floor, job, false, least});
    }

    void add_bpftrace(std::size_t floor_of_both, std::size_t floor_of_runtime) {
        const auto program = find_program("bpftrace");
        if (!program) {
            std::fprintf(stderr, "call_cost: no bpftrace here: its rows are left out\n");
            return;
        }
        const auto add_latency = [&](const Library &library, const std::string &layers,
                                     std::size_t floor) {
            ways_.push_back(
                {"bpftrace, latency histograms, " + layers, Way::Kind::other, &library,
                 library.traced(),
                 [=](const Library &copy) { return trace_with_bpftrace_latency(*program, copy); },
                 floor, Way::Job::latency});
        };
        add_latency(libraries_.both, both_layers, floor_of_both);
        add_latency(libraries_.runtime, runtime_layer, floor_of_runtime);
        ways_.push_back(
            {"bpftrace, live allocations and latency, runtime only",
             Way::Kind::other,
             &libraries_.runtime,
             {"cudaMalloc", "cudaFree"},
             [=](const Library &copy) { return trace_with_bpftrace_memory(*program, copy); },
             floor_of_runtime,
             Way::Job::memory});
    }

    void add_funclatency(std::size_t floor_of_both, std::size_t floor_of_runtime) {
        const auto program = find_program("funclatency");
        if (!program) {
            std::fprintf(stderr,
                         "call_cost: no funclatency here (libbpf-tools): its rows are left out\n");
            return;
        }
        const auto add = [&](const Library &library, const std::string &layers,
                             const std::vector<std::string> &functions, std::size_t floor) {
            ways_.push_back({"funclatency, " + layers, Way::Kind::other, &library, functions,
                             [=](const Library &copy) {
                                 return trace_with_funclatency(*program, copy, functions);
                             },
                             floor, Way::Job::latency});
        };
        add(libraries_.both, both_layers, {"cudaMemcpy", "cudaLaunchKernel", "cuLaunchKernel"},
            floor_of_both);
        add(libraries_.runtime, runtime_layer, {"cudaMemcpy", "cudaLaunchKernel"},
            floor_of_runtime);
    }

    std::vector<Way> take() { return std::move(ways_); }

private:
    const Libraries &libraries_;
    std::vector<Way> ways_;
};

}  // namespace

bool Way::concerns(const Workload &workload) const {
    return kind == Kind::untraced ||
           std::ranges::any_of(workload.functions, [&](std::string_view function) {
               return std::ranges::find(functions, function) != functions.end();
           });
}

std::vector<Way> ways_to_trace(const Libraries &libraries, Which which) {
    Builder builder(libraries);
    const auto &[both, runtime, driver] = libraries;
    const std::size_t session = builder.add_empty(AttachMode::session, both, both_layers);
    const std::size_t session_runtime =
        builder.add_empty(AttachMode::session, runtime, runtime_layer);
    const std::size_t session_driver = builder.add_empty(AttachMode::session, driver, driver_layer);
    const std::size_t least = builder.add_least(true, both, both_layers, session);
    const std::size_t least_runtime =
        builder.add_least(true, runtime, runtime_layer, session_runtime);
    const std::size_t least_function =
        builder.add_least(false, runtime, runtime_layer, session_runtime);
    const std::size_t full = builder.add_cuda(AttachMode::session, true, both, both_layers, session,
                                              Way::Job::latency, least);
    builder.add_cuda(AttachMode::session, false, both, both_layers, session);
    builder.add_python(both, session);
    const std::size_t counter = builder.add_least_count(false, both, session);
    builder.add_counted(both, full, counter, builder.add_least_count(true, both, session));
    builder.add_cuda(AttachMode::session, true, runtime, runtime_layer, session_runtime,
                     Way::Job::memory, least_runtime);
    builder.add_cuda(AttachMode::session, true, driver, driver_layer, session_driver);
    builder.add_func(AttachMode::session, runtime, runtime_layer, session_runtime,
                     Way::Job::latency, least_function);
    builder.add_func(AttachMode::session, both, both_layers, session);
    if (which == Which::sessions) {
        return builder.take();
    }
    const std::size_t multi = builder.add_empty(AttachMode::multi, both, both_layers);
    builder.add_cuda(AttachMode::multi, true, both, both_layers, multi);
    const std::size_t perf = builder.add_empty(AttachMode::perf, both, both_layers);
    const std::size_t perf_runtime = builder.add_empty(AttachMode::perf, runtime, runtime_layer);
    builder.add_cuda(AttachMode::perf, true, both, both_layers, perf);
    builder.add_func(AttachMode::perf, runtime, runtime_layer, perf_runtime);
    builder.add_bpftrace(perf, perf_runtime);
    builder.add_funclatency(perf, perf_runtime);
    return builder.take();
}

}  // namespace gpusnoop::bench
