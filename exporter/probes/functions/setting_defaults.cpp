// The default groups of functions. Each name and glob was looked up in the symbols of the real
// libraries: CUDA 13.0 with its cuBLAS, cuDNN 9 and NCCL 2.28, and libtorch; CPython 3.11 and
// OpenJDK 17.
#include <utility>

#include "exporter/config/globs.h"
#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

namespace {

using namespace std::chrono_literals;

FunctionPattern function(std::string symbol, FunctionOverrides overrides = {}) {
    const bool glob = config::is_glob(symbol);
    return {.symbol = std::move(symbol), .is_glob = glob, .overrides = std::move(overrides)};
}

FunctionPattern named(std::string name, std::string symbol, FunctionOverrides overrides = {}) {
    FunctionPattern pattern = function(std::move(symbol), std::move(overrides));
    pattern.name = std::move(name);
    return pattern;
}

FunctionOverrides slow_after(std::chrono::nanoseconds threshold) {
    return {.slow_threshold = std::optional(threshold)};
}

FunctionOverrides arguments(std::vector<std::uint8_t> positions) {
    return {.arguments = std::move(positions)};
}

FunctionOverrides slow_after(std::chrono::nanoseconds threshold,
                             std::vector<std::uint8_t> positions) {
    return {.slow_threshold = std::optional(threshold), .arguments = std::move(positions)};
}

FunctionGroup cuda() {
    return {.libraries = {"libcudart.so*", "libcudart-*.so*"},
            .functions = {function("cudaDeviceSynchronize", slow_after(10s)),
                          function("cudaStreamSynchronize*", slow_after(10s)),
                          function("cudaEventSynchronize", slow_after(10s)),
                          function("cudaStreamWaitEvent*"),
                          function("cudaEventRecord*"),
                          function("cudaStreamCreate*"),
                          function("cudaStreamDestroy"),
                          function("cudaEventCreateWithFlags"),
                          function("cudaEventDestroy"),
                          function("cudaLaunchHostFunc*"),
                          function("cudaStreamBeginCapture*"),
                          function("cudaStreamEndCapture*"),
                          function("cudaGraphInstantiate*"),
                          function("cudaGraphExecUpdate"),
                          function("cudaGraphExecDestroy"),
                          function("cudaFuncGetAttributes"),
                          function("cudaGetDeviceCount"),
                          function("cudaDeviceEnablePeerAccess"),
                          function("cudaIpcOpenMemHandle"),
                          function("cudaHostRegister"),
                          function("cudaHostUnregister"),
                          function("cudaMemGetInfo"),
                          function("cudaMemPrefetchAsync*"),
                          function("cudaMemPoolTrimTo")},
            .options = {.slow_threshold = 1s, .errors = ErrorKind::cuda_error}};
}

FunctionGroup cublas() {
    return {
        .libraries = {"libcublas.so*", "libcublas-*.so*", "libcublasLt.so*", "libcublasLt-*.so*"},
        .functions = {function("cublasCreate_v2", slow_after(5s)), function("cublas[SDCZ]gemm_v2*"),
                      function("cublasHgemm"), function("cublas[HSD]gemmBatched"),
                      function("cublas[HSDCZ]gemmStridedBatched"), function("cublas[SC]gemmEx"),
                      function("cublasGemm*Ex*"), function("cublas[SD]gemv_v2"),
                      function("cublas[SD]trsm_v2"), function("cublas[SD]trsmBatched"),
                      function("cublas[SD]getrfBatched"), function("cublas[SD]getrsBatched"),
                      function("cublasLtCreate", slow_after(5s)), function("cublasLtMatmul"),
                      function("cublasLtMatmulAlgoGetHeuristic")},
        .options = {.slow_threshold = 100ms, .errors = ErrorKind::cublas_status}};
}

FunctionGroup cudnn() {
    return {.libraries = {"libcudnn.so*", "libcudnn-*.so*"},
            .functions = {function("cudnnCreate", slow_after(5s)),
                          function("cudnnBackendFinalize", slow_after(5s)),
                          function("cudnnBackendExecute"), function("cudnnConvolution*Forward"),
                          function("cudnnConvolutionBackward*"),
                          function("cudnnFindConvolution*", slow_after(5s)),
                          function("cudnnBatchNormalization*"), function("cudnnNormalization*"),
                          function("cudnnActivation*ward"), function("cudnnPooling*ward"),
                          function("cudnnSoftmax*ward"), function("cudnnRNN*ward*"),
                          function("cudnnMultiHeadAttn*"), function("cudnnCTCLoss*"),
                          function("cudnnAddTensor"), function("cudnnOpTensor"),
                          function("cudnnReduceTensor")},
            .options = {.slow_threshold = 100ms, .errors = ErrorKind::cudnn_status}};
}

FunctionGroup nccl() {
    return {.libraries = {"libnccl.so*", "libnccl-*.so*", "librccl.so*", "librccl-*.so*",
                          "libtorch_cuda.so*", "libtorch_cuda-*.so*"},
            .match_exports = true,
            .functions = {function("ncclAllReduce"), function("ncclReduce"),
                          function("ncclReduceScatter"), function("ncclBroadcast"),
                          function("ncclAllGather"), function("ncclBcast", arguments({2, 3, 4})),
                          function("ncclSend", arguments({2, 3, 4})),
                          function("ncclRecv", arguments({2, 3, 4})),
                          function("ncclGroupEnd", arguments({})),
                          function("ncclCommInitRank*", slow_after(30s, {2, 3})),
                          function("ncclCommInitAll", slow_after(30s, {2})),
                          function("ncclCommSplit", slow_after(30s, {2, 3})),
                          function("ncclCommShrink", slow_after(30s, {3})),
                          function("ncclCommUserRank", arguments({})),
                          function("ncclCommCount", arguments({})),
                          function("ncclCommFinalize", slow_after(30s, {})),
                          function("ncclCommDestroy", slow_after(30s, {})),
                          function("ncclCommAbort", slow_after(30s, {}))},
            .options = {
                .slow_threshold = 1s, .errors = ErrorKind::nccl_result, .arguments = {3, 4, 5}}};
}

// Only the starts of the small operations are counted. A program calls them thousands of times a
// second, and a C++ function's end is seen by a probe on its `ret`, which the kernel does not
// emulate: on a virtual machine with an H200, the end cost 5 us and the start 0.6 us. What they do
// on the GPU has its durations in the groups of cuBLAS and of the CUDA runtime.
FunctionGroup libtorch() {
    const FunctionOverrides start{.entry_only = true};
    return {.libraries = {"libtorch_cpu.so*", "libtorch_cpu-*.so*"},
            .functions = {named("at::matmul", "_ZN2at4_ops6matmul4call*", start),
                          named("at::linear", "_ZN2at4_ops6linear4call*", start),
                          named("at::mm", "_ZN2at4_ops2mm4call*", start),
                          named("at::addmm", "_ZN2at4_ops5addmm4call*", start),
                          named("at::bmm", "_ZN2at4_ops3bmm4call*", start),
                          named("at::item", "_ZN2at4_ops4item4call*", start),
                          named("at::convolution", "_ZN2at4_ops11convolution4call*"),
                          named("at::scaled_dot_product_attention",
                                "_ZN2at4_ops28scaled_dot_product_attention4call*"),
                          named("torch::autograd::Engine::execute",
                                "_ZN5torch8autograd6Engine7execute*", slow_after(30s))},
            .options = {.slow_threshold = 1s}};
}

// A thread that waits for the GIL while Python ends is ended in there, by pthread_exit: so no
// return probes. To what both functions jump conditionally is a fatal error.
FunctionGroup python() {
    const FunctionOverrides returns{.endings = ebpf::Endings::returns};
    return {.enabled = false,
            .libraries = {"libpython3*.so*", "python3.[0-9]", "python3.[0-9][0-9]"},
            .functions = {named("gil_wait", "PyEval_RestoreThread", returns),
                          named("gil_wait", "PyEval_AcquireThread", returns)},
            .usdt = {{.name = "gc", .provider = "python", .begin = "gc__start", .end = "gc__done"}},
            .options = {.slow_threshold = 1s}};
}

FunctionGroup java() {
    return {.enabled = false,
            .libraries = {"libjvm.so"},
            .usdt = {{.name = "gc", .provider = "hotspot", .begin = "gc__begin", .end = "gc__end"}},
            .options = {.slow_threshold = 1s}};
}

}  // namespace

FunctionGroups shipped_function_groups() {
    return {{"cuda", cuda()},         {"cublas", cublas()}, {"cudnn", cudnn()}, {"nccl", nccl()},
            {"libtorch", libtorch()}, {"python", python()}, {"java", java()}};
}

}  // namespace gpusnoop::probes
