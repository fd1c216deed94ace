// Batches: many copies by one call.
#pragma once

#include <vector>

#include "bpf/cuda/cuda.h"

namespace gpusnoop::probes {

// The copies of a batch, as if each had been a call of its own. Only the first one has a duration.
[[nodiscard]] std::vector<cuda_copy_record> copies_of(const cuda_batch_record &batch);

}  // namespace gpusnoop::probes
