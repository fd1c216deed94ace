// The times between events that programs ask the GPU for.
#pragma once

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

class CudaEvents {
public:
    explicit CudaEvents(series::FamilySet &families) : families_(make_event_families(families)) {}

    static void started(Process &process);

    void on_elapsed(Process &process, const cuda_elapsed_record &record);

private:
    struct State;

    EventFamilies families_;
};

}  // namespace gpusnoop::probes
