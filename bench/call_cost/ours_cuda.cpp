#include <utility>

#include "bench/call_cost/drained.h"
#include "bench/call_cost/programs.h"
#include "exporter/probes/cuda/programs.h"

namespace gpusnoop::bench {

TracingResult trace_with_cuda(ebpf::AttachMode mode, CudaOptions options, const Library &library) {
    probes::CudaConfig config;
    config.attach = attach_as(mode);
    config.call_stacks = options.call_stacks;
    config.launches.durations =
        options.samples_launches ? probes::Durations::sampled : probes::Durations::all;
    config.max_calls_per_second = no_throttling;
    auto programs = probes::CudaPrograms::load(config, {});
    if (!programs) {
        return tl::unexpected(programs.error());
    }
    const int lifecycle = (*programs)->lifecycle_ring();
    const int allocations = (*programs)->allocations_ring();
    const int calls = (*programs)->calls_ring();
    auto tracing =
        Drained<probes::CudaPrograms>::start(std::move(*programs), {lifecycle, allocations, calls});
    if (!tracing) {
        return tl::unexpected(tracing.error());
    }
    const auto &cuda = (*tracing)->programs();
    const auto places = cuda.find(library.found());
    if (!places) {
        return tl::unexpected(places.error().error);
    }
    auto attached = cuda.attach(library.found(), *places);
    if (!attached) {
        return tl::unexpected(attached.error().error);
    }
    (*tracing)->keep(std::move(*attached));
    return std::move(*tracing);
}

}  // namespace gpusnoop::bench
