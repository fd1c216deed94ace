#include <bpf/bpf.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "bench/call_cost/drained.h"
#include "bench/call_cost/fake_python.h"
#include "bench/call_cost/programs.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/cuda/attach/programs.h"
#include "exporter/probes/cuda/governor/launch_probes.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"
#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/probes/frame/python/tables.h"

namespace gpusnoop::bench {

namespace {

// As the exporter does when it has found an interpreter in the process.
Result<> find_python_in_own(const probes::CudaPrograms &cuda, const Library &library) {
    constexpr std::uint64_t python_3_12 = 0x030c0000;
    static const FakePython python(*probes::python_by_version(python_3_12), python_functions);
    library.functions().cuda_free(nullptr);  // makes the process known
    const auto own = static_cast<std::uint32_t>(::getpid());
    cuda_live_process process{};
    if (const int error = bpf_map_lookup_elem(cuda.tables().processes, &own, &process);
        error != 0) {
        return fail_errno("find this process among those that use CUDA", -error);
    }
    const probes::PythonTables tables(
        cuda.python_tables(),
        [all = probes::CudaTables(cuda.tables())](const auto &one) { return all.is_running(one); });
    tables.set_interpreter({own, process.since_ns}, python.interpreter());
    return {};
}

}  // namespace

TracingResult trace_with_cuda(ebpf::AttachMode mode, CudaOptions options, const Library &library) {
    probes::CudaConfig config;
    config.attach = attach_as(mode);
    config.call_stacks = options.call_stacks;
    config.max_overhead = options.counts_launches ? 1 : 0;  // nothing here governs it
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
    auto places = cuda.find(library.found());
    if (!places) {
        return tl::unexpected(places.error().error);
    }
    if (options.counts_launches) {
        std::vector<ebpf::AttachPoint> launches = probes::take_launches(*places).points;
        std::erase_if(launches, [](const ebpf::AttachPoint &launch) {
            return !probes::function_of(launch.cookie)->is_driver();
        });
        auto counting =
            cuda.attach_counting({library.found().file.get()}, std::move(launches), std::nullopt);
        if (!counting) {
            return tl::unexpected(counting.error());
        }
        (*tracing)->keep(std::move(*counting));
        return std::move(*tracing);
    }
    auto attached = cuda.attach(library.found(), *places);
    if (!attached) {
        return tl::unexpected(attached.error().error);
    }
    (*tracing)->keep(std::move(*attached));
    if (options.is_python) {
        if (auto found = find_python_in_own(cuda, library); !found) {
            return tl::unexpected(found.error());
        }
    }
    return std::move(*tracing);
}

}  // namespace gpusnoop::bench
