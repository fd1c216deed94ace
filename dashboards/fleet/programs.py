"""What typical GPU programs do with each step: kernels, copies, calls."""

from fleet.work import (GIB, MIB, Collective, Copy, Function, Holding, Kernel, Memset, SystemCall, Timing)

CUDART, CUBLAS, CUDNN, NCCL = "libcudart.so.12", "libcublas.so.12", "libcudnn.so.9", "libnccl.so.2"


# Where the time of a thread that launches goes, by phase and state. The GPU is the limit; or data loaders, the program's
# own code, launch calls, the CPU quota, storage.
GPU_BOUND = {("wait", "poll"): 0.62, ("wait", "running"): 0.11, ("launch", "running"): 0.13, ("host", "running"): 0.07,
             ("copy", "running"): 0.02, ("host", "futex"): 0.03, ("host", "runnable"): 0.01, ("memory", "device"): 0.01}
DATA_BOUND = {("wait", "poll"): 0.22, ("host", "pipe"): 0.47, ("host", "running"): 0.15, ("launch", "running"): 0.09,
              ("host", "futex"): 0.03, ("host", "file"): 0.02, ("host", "runnable"): 0.02}
CODE_BOUND = {("host", "running"): 0.44, ("wait", "running"): 0.31, ("launch", "running"): 0.14, ("host", "socket"): 0.08,
              ("host", "futex"): 0.02, ("copy", "running"): 0.01}
LAUNCH_BOUND = {("launch", "running"): 0.46, ("wait", "running"): 0.28, ("host", "running"): 0.19, ("host", "futex"): 0.04,
                ("memory", "device"): 0.03}
QUOTA_BOUND = {("host", "throttled"): 0.31, ("launch", "throttled"): 0.16, ("wait", "poll"): 0.19, ("host", "running"): 0.14,
               ("launch", "running"): 0.15, ("host", "futex"): 0.05}
STORING = {("host", "file"): 0.71, ("copy", "running"): 0.17, ("host", "running"): 0.12}


def loaded(size, at=0.0, over=120.0):
    """Memory that a program fills while it loads, from `at` on."""
    return lambda second: size * min(1.0, max(0.0, (second - at) / over))


def every(interval, length, offset=0.0):
    """1 for `length` seconds of each `interval`."""
    return lambda second: 1.0 if (second - offset) % interval < length else 0.0


def otherwise(*functions):
    return lambda second: 0.0 if any(function(second) for function in functions) else 1.0


def transformer(activity, layers=32):
    """A step of a large language model's training, on one GPU."""
    return [
        Kernel(activity, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", 6.0 * layers, "132x4x1",
               "384x1x1"),
        Kernel(activity, "flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", 1.0 * layers, "16x8x32",
               "128x1x1"),
        Kernel(activity, "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<128>", 1.0 * layers, "32x8x32", "256x1x1"),
        Kernel(activity, "vectorized_layer_norm_kernel<c10::BFloat16>", 2.0 * layers, "4096x1x1", "32x4x1"),
        Kernel(activity, "elementwise_kernel<128, 4, add>", 5.0 * layers, "32768x1x1", "128x1x1"),
        Kernel(activity, "multi_tensor_apply_kernel<FusedAdam>", 24, "320x1x1", "512x1x1"),
        Copy(activity, "h2d", "async", 2, 2 * MIB, 24e9),
        Copy(activity, "d2h", "sync", 1, 4096, 6e7),
        Memset(activity, 12, 4 * MIB),
        Timing(activity, 1, 0.42),
        Function(activity, CUBLAS, "cublasLtMatmul", 6.0 * layers, 1.3e-5, 0.5, 0.1),
        Function(activity, CUBLAS, "cublasGemmEx", 1.0 * layers, 1.1e-5, 0.5, 0.1),
        Function(activity, CUDART, "cudaEventRecord", 4.0 * layers, 2.1e-6, 0.4),
        Function(activity, CUDART, "cudaStreamWaitEvent", 4.0 * layers, 1.7e-6, 0.4),
    ]


def all_reduce(activity, per_step, size, sync):
    """Gradients between the ranks; `sync`: seconds that a rank waits for its stream in each step."""
    return [
        Collective(activity, "ncclAllReduce", "bfloat16", "sum", per_step, size),
        Collective(activity, "ncclAllGather", "bfloat16", "", per_step / 4, size // 4),
        Function(activity, NCCL, "ncclAllReduce", per_step, 2.4e-5, 0.7),
        Function(activity, NCCL, "ncclAllGather", per_step / 4, 2.2e-5, 0.7),
        Function(activity, CUDART, "cudaStreamSynchronize", 2, sync / 2, 0.25, 10.0),
    ]


def convolutions(activity):
    """A step of an image model, on one GPU."""
    return [
        Kernel(activity, "cudnn::engines_precompiled::nchwToNhwcKernel<__half>", 40, "2048x1x1", "256x1x1"),
        Kernel(activity, "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc", 53, "784x2x1", "256x1x1"),
        Kernel(activity, "sm80_xmma_wgrad_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc", 53, "144x8x1", "128x1x1"),
        Kernel(activity, "batch_norm_backward_reduce_kernel<__half>", 53, "64x1x1", "512x1x1"),
        Copy(activity, "h2d", "async", 1, 38 * MIB, 24e9),
        Copy(activity, "d2h", "sync", 2, 8192, 7e7),
        Memset(activity, 53, 1 * MIB),
        Timing(activity, 1, 0.18),
        Function(activity, CUDNN, "cudnnBackendExecute", 159, 2.6e-5, 0.5, 0.1),
        Function(activity, CUDNN, "cudnnBatchNormalizationBackwardEx", 53, 1.9e-5, 0.5, 0.1),
        Function(activity, CUBLAS, "cublasSgemm_v2", 3, 1.4e-5, 0.5, 0.1),
        Function(activity, CUDART, "cudaStreamSynchronize", 1, 0.02, 0.4, 10.0),
    ]


def checkpoint(activity, size, pinning=0.05):
    """One checkpoint: the model's state goes to pinned memory, which takes `pinning` seconds to get, and from there
    to a file system."""
    return [
        Copy(activity, "d2h", "sync", size / (256 * MIB), 256 * MIB, 21e9),
        Copy(activity, "h2h", "sync", size / (256 * MIB) / 4, 64 * MIB, 11e9),
        Function(activity, CUDART, "cudaDeviceSynchronize", 4, 0.35, 0.6, 10.0),
        Function(activity, CUDART, "cudaHostRegister", 2, pinning, 0.8, 1.0),
    ]


def loading(activity):
    """Work that a program does now and then: plans, heuristics, modules."""
    return [
        Function(activity, CUDNN, "cudnnBackendFinalize", 6, 0.09, 1.1, 5.0),
        Function(activity, CUBLAS, "cublasLtMatmulAlgoGetHeuristic", 12, 1.2e-4, 0.9, 0.1),
        Function(activity, CUDART, "cudaFuncGetAttributes", 20, 9e-4, 1.3, 1.0),
        Copy(activity, "d2d", "sync", 8, 96 * MIB, 1.1e12),
        Copy(activity, "h2d", "sync", 24, 128 * MIB, 9e9),
    ]


def replay(activity, graphs=1.0):
    """A request's decoding steps: graphs are replayed, and tokens copied back."""
    return [
        Kernel(activity, "", 24 * graphs, "", ""),
        Kernel(activity, "reshape_and_cache_flash_kernel<uint16_t>", 24, "256x1x1", "512x1x1"),
        Kernel(activity, "rms_norm_kernel<c10::BFloat16>", 24, "256x1x1", "1024x1x1"),
        Copy(activity, "h2d", "async", 30, 65536, 12e9),
        Copy(activity, "d2h", "sync", 24, 2048, 5e7),
        Copy(activity, "d2d", "async", 6, 4 * MIB, 1.4e12),
        Function(activity, CUDART, "cudaEventSynchronize", 24, 0.011, 0.45, 10.0),
        Function(activity, CUDART, "cudaEventRecord", 48, 2.3e-6, 0.4),
        Function(activity, CUBLAS, "cublasGemmEx", 30, 1.2e-5, 0.5, 0.1),
    ]


def system_calls(activity, per_step=1.0):
    return [
        SystemCall(activity, "ioctl", 14 * per_step, 2.1e-5, "EINTR", 0.0004),
        SystemCall(activity, "futex", 60 * per_step, 8e-4, "ETIMEDOUT", 0.03),
        SystemCall(activity, "read", 40 * per_step, 1.4e-4, "EAGAIN", 0.1),
        SystemCall(activity, "poll", 10 * per_step, 4e-3),
        SystemCall(activity, "mmap", 1 * per_step, 1.1e-5),
        SystemCall(activity, "openat", 3 * per_step, 9e-6, "ENOENT", 0.2),
    ]


def model_memory(weights, activations, at=0.0, churn=None):
    """Weights and optimizer stay; the caching allocator's blocks for activations do, too."""
    return [
        Holding("device", "c10::cuda::CUDACachingAllocator::malloc < at::empty_cuda < Module.to", loaded(weights, at),
                20 * MIB),
        Holding("device", "c10::cuda::CUDACachingAllocator::malloc < at::empty_cuda < forward",
                loaded(activations, at + 60), 20 * MIB, churn or {}),
        Holding("pinned_host", "cudaHostAlloc < at::pin_memory < DataLoader", loaded(2 * GIB, at, 60), 64 * MIB),
    ]
