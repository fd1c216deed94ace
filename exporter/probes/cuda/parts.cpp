#include "exporter/probes/cuda/parts.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

CudaParts::CudaParts(series::FamilySet &families, CudaProcesses &processes,
                     const std::vector<discovery::Gpu> &gpus, nanoseconds started,
                     const CudaCallbacks &callbacks)
    : memory(families, processes.table(), callbacks, started),
      copies(families),
      launches(families, processes.table(), callbacks, started),
      graphs(families),
      events(families),
      errors(families),
      out_of_memory(
          families, processes.table(), gpus,
          {.use_site = [this](Process &process,
                              const Site &site) { memory.use_site(process, site); },
           .on_event = [&callbacks](const OutOfMemory &event) { callbacks.out_of_memory(event); }}),
      idle(families, processes.table(), callbacks, started) {}

void CudaParts::started(Process &process) {
    memory.started(process);
    CudaCopies::started(process);
    CudaLaunches::started(process);
    CudaGraphs::started(process);
    CudaEvents::started(process);
    CudaErrors::started(process);
    CudaOutOfMemory::started(process);
    CudaIdleHeld::started(process);
}

void CudaParts::tidy(nanoseconds now, nanoseconds retention) {
    memory.tidy(now, retention);
    launches.tidy(now);
    out_of_memory.tidy(now);
    idle.tidy(now);
}

bool CudaParts::are_done_with(const Process &process) {
    return MemoryAccounting::is_done_with(process) && CudaLaunches::is_done_with(process) &&
           CudaOutOfMemory::is_done_with(process);
}

}  // namespace gpusnoop::probes
