// Which functions are never paused, whatever they cost.
#include "exporter/probes/functions/limit/dear_functions.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

using gpusnoop::probes::is_always_observed;

TEST_CASE("waits, copies, allocations, frees and operations of NCCL are always observed") {
    for (const std::string symbol : {"cudaStreamSynchronize",
                                     "cudaStreamSynchronize_ptsz",
                                     "cudaDeviceSynchronize",
                                     "cudaEventSynchronize",
                                     "cuCtxSynchronize",
                                     "cuStreamSynchronize_ptsz",
                                     "cudaMalloc",
                                     "cudaMallocAsync",
                                     "cudaFree",
                                     "cudaFreeHost",
                                     "cudaHostAlloc",
                                     "cudaHostRegister",
                                     "cudaMemcpyAsync",
                                     "cudaMemcpy2D_ptds",
                                     "cudaMemPrefetchAsync_v2",
                                     "cudaMemPoolTrimTo",
                                     "cuMemAlloc_v2",
                                     "cuMemFree_v2",
                                     "cuMemcpyHtoDAsync_v2",
                                     "cuMemCreate",
                                     "cuMemRelease",
                                     "ncclAllReduce",
                                     "ncclGroupEnd",
                                     "pncclSend"}) {
        CAPTURE(symbol);
        CHECK(is_always_observed(symbol));
    }
}

TEST_CASE("other functions may be paused") {
    for (const std::string symbol :
         {"cublasGemmEx", "cublasCreate_v2", "cudnnBackendExecute", "cudaEventRecord",
          "cudaStreamWaitEvent", "cudaEventDestroy", "cudaMemGetInfo", "cudaFuncGetAttributes",
          "_ZN2at4_ops6matmul4callERKNS_6TensorES4_", "my_function"}) {
        CAPTURE(symbol);
        CHECK_FALSE(is_always_observed(symbol));
    }
}
