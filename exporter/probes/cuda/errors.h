// Counts calls that returned an error, by function and error.
#pragma once

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/overview.h"

namespace gpusnoop::probes {

class CudaErrors {
public:
    explicit CudaErrors(series::FamilySet &families) : families_(make_error_families(families)) {}

    static void started(Process &process);

    // False: such results of the function are not failures, and the call is not counted.
    [[nodiscard]] static bool shows(const cuda_record &head);
    void count(Process &process, const cuda_record &head);

    // All errors of the process so far; launches are not among these counts.
    [[nodiscard]] static const CallCounts &counts(const Process &process);

private:
    struct State;

    ErrorFamilies families_;
};

}  // namespace gpusnoop::probes
