// Finds names for kernels and call sites, on request of the CUDA aggregator.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/launches/cuda_kernel_resolver.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"
#include "exporter/probes/cuda/memory/python_tables.h"
#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/python/site_resolver.h"

namespace gpusnoop::probes {

class CudaNames {
public:
    static Result<CudaNames> start(PythonTables python);

    void remember(const symbols::Executable &executable) { kernels_->remember(executable); }
    void ask_for_kernel(symbols::CudaKernelRequest request, const CudaTables &tables);
    void ask_for_site(std::uint64_t ticket, const ProcessKey &process, std::uint64_t code_start,
                      const Site &site, const CudaTables &tables);
    // If the process has a Python interpreter, its next allocations have the stacks of Python's
    // functions. Looks at once if its program is called so, else at the next rescan: there may be
    // thousands of short processes.
    void look_for_python(const ProcessIdentity &process);
    // For each rescan interval: looks again where none was found, as a program may load one at any
    // time. Forgets what is not `in_use` of Python's stacks.
    void rescan(const std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> &running,
                std::chrono::nanoseconds now, const std::set<std::uint64_t> &in_use);
    void hand_answers_to(CudaAggregator &aggregator);

private:
    // Of a process without an interpreter; counted in rescans.
    struct Look {
        std::uint32_t waited = 0;
        std::uint32_t next = 1;
    };

    CudaNames(std::unique_ptr<symbols::CudaKernelResolver> kernels,
              std::unique_ptr<PythonSiteResolver> sites, PythonTables python)
        : kernels_(std::move(kernels)), sites_(std::move(sites)), python_(python) {}

    std::unique_ptr<symbols::CudaKernelResolver> kernels_;
    std::unique_ptr<PythonSiteResolver> sites_;
    PythonTables python_;
    std::map<ProcessKey, Look> looks_;
};

}  // namespace gpusnoop::probes
