#include "exporter/probes/functions/select/always_observed.h"

#include <string>
#include <vector>

#include "exporter/base/glob.h"

namespace gpusnoop::probes {

bool is_always_observed(std::string_view symbol) {
    // The runtime's and the driver's names. A * at the end is for variants such as _ptsz and _v2.
    static const std::vector<std::string> globs = {"cu*Synchronize*",
                                                   "cudaMalloc*",
                                                   "cudaHostAlloc*",
                                                   "cudaHostRegister*",
                                                   "cudaHostUnregister*",
                                                   "cudaFree*",
                                                   "cudaMemcpy*",
                                                   "cudaMemset*",
                                                   "cudaMemPrefetch*",
                                                   "cudaMemPoolTrimTo*",
                                                   "cuMemAlloc*",
                                                   "cuMemHostAlloc*",
                                                   "cuMemHostRegister*",
                                                   "cuMemHostUnregister*",
                                                   "cuMemCreate*",
                                                   "cuMemMap*",
                                                   "cuMemUnmap*",
                                                   "cuMemRelease*",
                                                   "cuMemFree*",
                                                   "cuMemcpy*",
                                                   "cuMemset*",
                                                   "cuMemPrefetch*",
                                                   "cuMemPoolTrimTo*",
                                                   "nccl*",
                                                   "pnccl*"};
    return matches_any(globs, symbol);
}

}  // namespace gpusnoop::probes
