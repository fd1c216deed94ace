"""Who works on the fleet: twelve nodes of four GPUs, some in Kubernetes, some in Slurm."""

from fleet import programs
from fleet.clock import during, product, wobble
from fleet.node import Node
from fleet.programs import CUBLAS, CUDART, NCCL, every, otherwise
from fleet.work import GIB, MIB, Failure, Function, Holding, Kernel, Pod, Slurm, Work

HOUR, ALL = 3600.0, (0, 1, 2, 3)


def nodes(length, cluster):
    """`length`: of the picture, in seconds."""
    hopper = [Node(f"gpu-a0{number}", "NVIDIA H100 80GB HBM3", 81559, cluster=cluster) for number in range(1, 7)]
    ampere = [Node(f"gpu-b0{number}", "NVIDIA A100-SXM4-80GB", 81920, cluster=cluster) for number in range(1, 7)]
    hopper[4].restart = 0.62 * length
    ampere[2].version, ampere[2].revision = "0.9.0", "31c8ab2"
    ampere[5].failing = 0.8 * length
    return hopper + ampere


def with_validation(rate, name, seed):
    """Training, with validation at the beginning of each hour and a checkpoint some minutes before each half hour."""
    validates, saves = every(HOUR, 240), every(HOUR / 2, 60, 1560)
    trains = otherwise(validates, saves)
    steady = wobble(seed, 0.06)
    return {name: product(steady, trains, lambda second: rate),
            "validate": product(steady, validates, lambda second: rate * 2.2),
            "save": product(saves, lambda second: 1 / 60),
            "load": product(every(HOUR, 60), lambda second: 0.05)}


def pretraining(length):
    """16 ranks on four nodes. Rank 15, on gpu-a03, is throttled after half of the time: the others wait for it."""
    slow_from = 0.55 * length
    for index, node in enumerate(("gpu-a01", "gpu-a02", "gpu-a04", "gpu-a03")):
        straggles = node == "gpu-a03"
        pod = Pod("llm-research", f"pretrain-7b-worker-{int(node[-1]) - 1}", "pytorch")
        activities = with_validation(1.1, "step", "pretrain")
        whole = activities["step"]
        activities["step"] = product(whole, lambda second: 1.0 if second < slow_from else 0.0)
        activities["throttled"] = product(whole, lambda second: 0.74 if second >= slow_from else 0.0)
        yield Work(
            node, "python3", ALL, script="pretrain.py", pod=pod, first_rank=4 * index, ranks=16,
            lag=(lambda second: 3.0 + 9.0 * min(1.0, max(0.0, (second - slow_from) / HOUR))) if straggles else None,
            activities=activities,
            memory=programs.model_memory(34 * GIB, 31 * GIB, -3 * HOUR, {"validate": 512 * MIB}),
            does=[*programs.transformer("step"), *programs.transformer("throttled"),
                  *programs.all_reduce("step", 14, 96 * MIB, 0.24),
                  *programs.all_reduce("throttled", 14, 96 * MIB, 0.02 if straggles else 0.55),
                  *programs.transformer("validate")[:3], *programs.checkpoint("save", 20 * GIB),
                  *programs.loading("load"),
                  *(programs.system_calls("step") + programs.system_calls("throttled") if straggles else ())],
            utilization=lambda second: 0.93 if second < slow_from else 0.72, loaders=True,
            threads={"step": programs.GPU_BOUND, "throttled": programs.QUOTA_BOUND if straggles else programs.GPU_BOUND,
                     "validate": programs.GPU_BOUND, "save": programs.STORING})


def segmentation():
    """An image model on the four GPUs of gpu-a05, whose checkpoints wait for pages to be pinned."""
    activities = with_validation(3.4, "step", "segmentation")
    return Work("gpu-a05", "python3", ALL, script="train_segmentation.py", ranks=4,
                pod=Pod("vision", "train-segmentation-0", "trainer"), activities=activities,
                memory=programs.model_memory(6 * GIB, 41 * GIB, -HOUR, {"step": 96 * MIB}),
                does=[*programs.convolutions("step"), *programs.convolutions("validate")[:2],
                      *programs.all_reduce("step", 6, 25 * MIB, 0.03),
                      *programs.checkpoint("save", 2 * GIB, pinning=0.7),
                      *programs.loading("load")],
                utilization=wobble("segmentation", 0.1, 900), loaders=True,
                threads={"step": programs.DATA_BOUND, "validate": programs.DATA_BOUND, "save": programs.STORING})


def leaking(length):
    """A fine-tuning that caches features on the GPU and never drops them, until there is no room."""
    begins, full = 0.08 * length, 0.93 * length

    def leak(second):
        return 46 * GIB * min(1.0, max(0.0, (second - begins) / (full - begins)))

    activities = {"step": product(wobble("asr", 0.1), lambda second: 2.2 if second < full else 0.6),
                  "load": product(every(HOUR, 60), lambda second: 0.02), "fail": during(full, 1e9, 0.4)}
    return Work("gpu-a06", "python3", (0, 1), script="finetune_asr.py",
                pod=Pod("speech", "asr-finetune-7d9c4-x2lmq", "main"),
                ranks=2, activities=activities,
                memory=[*programs.model_memory(9 * GIB, 22 * GIB, -2 * HOUR, {"step": 64 * MIB}),
                        Holding("device",
                                "c10::cuda::CUDACachingAllocator::malloc < at::cat_cuda < FeatureCache.append", leak,
                                2 * MIB)],
                does=[*programs.transformer("step", 12), *programs.all_reduce("step", 4, 16 * MIB, 0.05),
                      *programs.loading("load"), Failure("fail", "cudaMalloc", "cudaErrorMemoryAllocation")],
                utilization=lambda second: 0.81 if second < full else 0.2, loaders=True,
                threads={"step": programs.GPU_BOUND})


def serving():
    """A language model's service, which replays graphs, with the day's load; and one of embeddings."""
    for index, node in enumerate(("gpu-b01", "gpu-b02")):
        load = product(wobble("requests", 1.2, 4 * HOUR), wobble(node, 0.2, 600), lambda second: 2.6)
        yield Work(node, "python3", ALL, script="vllm.entrypoints.openai.api_server", ranks=4,
                   pod=Pod("serving", f"chat-70b-6f7c9b8d5-{('k8x2p', 'w4nqz')[index]}", "vllm"),
                   activities={"request": load, "load": product(every(HOUR, 60), lambda second: 0.02)},
                   memory=[*programs.model_memory(36 * GIB, 4 * GIB, -40 * HOUR),
                           Holding("vmm", "cuMemCreate < vllm::CuMemAllocator::malloc < KVCache",
                                   programs.loaded(30 * GIB, -40 * HOUR), 32 * MIB)],
                   does=[*programs.replay("request"), *programs.all_reduce("request", 48, 512 * 1024, 0.001),
                         *programs.loading("load"), *(programs.system_calls("request", 2) if index == 0 else ())],
                   utilization=product(load, lambda second: 0.22), threads={"request": programs.GPU_BOUND})
    load = product(wobble("embeddings", 0.8, 2 * HOUR), lambda second: 9.0)
    yield Work("gpu-b03", "tritonserver", (0, 1), "/opt/tritonserver/bin/tritonserver",
               pod=Pod("serving", "embeddings-5c6d7f-hh2vt", "triton"),
               activities={"request": load, "load": product(every(HOUR, 30), lambda second: 0.02)},
               memory=[Holding("device", "nvinfer1::rt::AllocImpl < ExecutionContext",
                               programs.loaded(11 * GIB, -9 * HOUR), 64 * MIB),
                       Holding("async", "ort::CudaAllocator::Alloc",
                               programs.loaded(3 * GIB, -9 * HOUR), 4 * MIB, {"request": 12 * MIB})],
               does=programs.replay("request", 0.2) + programs.loading("load"),
               utilization=product(load, lambda second: 0.04), threads={"request": programs.CODE_BOUND})


def hoarder(length):
    """A notebook whose cell ended after the first hour, and which keeps what it had loaded."""
    done = 0.15 * length
    return Work("gpu-b03", "python3", (3,), script="ipykernel_launcher",
                pod=Pod("notebooks", "jupyter-lchen", "notebook"),
                activities={"step": during(-HOUR, done, 1.5), "load": during(0, 60, 0.1)},
                memory=programs.model_memory(16 * GIB, 52 * GIB, -HOUR, {"step": 64 * MIB}),
                does=programs.transformer("step", 24) + programs.loading("load"),
                utilization=lambda second: 0.7 if second < done else 0.0, threads={"step": programs.GPU_BOUND})


def molecular(length):
    """Slurm: molecular dynamics of mkoch, and relaxations of afischer on two GPUs each."""
    steps = product(wobble("gromacs", 0.05), lambda second: 30.0)
    yield Work("gpu-b04", "gmx", ALL, "/opt/gromacs/bin/gmx", linkage="static", slurm=Slurm(48211, 0, "mkoch", 20117),
               activities={"step": steps},
               memory=[Holding("device", "allocateDeviceBuffer < gmx::StatePropagatorDataGpu",
                               programs.loaded(3 * GIB, -30 * HOUR), 24 * MIB),
                       Holding("managed", "gmx::PmeGpu", programs.loaded(1 * GIB, -30 * HOUR),
                               8 * MIB)],
               does=[Kernel("step", "nbnxn_kernel_ElecEwTwinCut_VdwLJCombGeom_F_cuda", 2, "1848x1x1", "8x8x1",
                            unobserved=0.018),
                     Kernel("step", "pme_spline_and_spread_kernel<4, true>", 1, "4620x1x1", "16x16x1"),
                     *programs.replay("step", 0)[3:5],
                     Function("step", CUDART, "cudaStreamSynchronize", 3, 0.004, 0.5, 10.0),
                     Function("step", CUDART, "cudaEventRecord", 12, 1.9e-6, 0.4, unobserved=0.02),
                     *programs.system_calls("step", 0.2)],
               utilization=lambda second: 0.88, threads={"step": programs.GPU_BOUND})
    number = max(2, round(length / (40 * 60)))
    for index in range(number):
        begins, ends = index * length / number, (index + 0.7) * length / number
        yield Work("gpu-b05", "python3", (index % 4, (index + 1) % 4), script="relax.py", start=begins,
                   end=ends, unfreed=True, slurm=Slurm(48215 + index, 0, "afischer", 20342),
                   activities={"step": product(during(begins + 60, ends), wobble(f"relax {index}"), lambda second: 4.0),
                               "load": during(begins, begins + 60, 0.1)},
                   memory=programs.model_memory(2 * GIB, (6 + 3 * (index % 3)) * GIB, begins, {"step": 32 * MIB}),
                   does=programs.transformer("step", 8) + programs.loading("load"),
                   utilization=during(begins + 60, ends, 0.64), loaders=True, threads={"step": programs.LAUNCH_BOUND})


def failing(length):
    """A job on gpu-b06, one of whose GPUs falls off the bus; it starts again on two others."""
    ends = 0.8 * length + 60
    fails = {"fail": during(ends - 60, ends, 2.0)}
    for first, last, gpus, slurm in ((-9 * HOUR, ends, ALL, Slurm(48102, 0, "tnguyen", 20410)),
                                     (ends + 600, float("inf"), (0, 1), Slurm(48261, 0, "tnguyen", 20410))):
        yield Work("gpu-b06", "python3", gpus, script="train_dock.py", start=first, end=last, slurm=slurm,
                   ranks=len(gpus), unfreed=True,
                   activities={"step": product(during(first, min(last, ends - 60) if first < 0 else last),
                                               wobble("dock"), lambda second: 1.8),
                               "load": during(max(0, first), max(0, first) + 60, 0.1),
                               **(fails if first < 0 else {"fail": during(0, 0)})},
                   memory=programs.model_memory(12 * GIB, 30 * GIB, first, {"step": 64 * MIB}),
                   does=[*programs.transformer("step", 16), *programs.all_reduce("step", 6, 32 * MIB, 0.1),
                         *programs.loading("load"),
                         Failure("fail", "cudaLaunchKernel", "cudaErrorECCUncorrectable"),
                         Failure("fail", "cudaMemcpyAsync", "cudaErrorECCUncorrectable", 0.5),
                         Failure("fail", "ncclAllReduce", "ncclUnhandledCudaError", 0.5, NCCL),
                         Failure("fail", "cublasLtMatmul", "CUBLAS_STATUS_EXECUTION_FAILED", 0.7, CUBLAS),
                         Failure("fail", "cudnnBackendExecute", "CUDNN_STATUS_EXECUTION_FAILED", 0.2, programs.CUDNN)],
                   utilization=during(first, last, 0.83), loaders=True, threads={"step": programs.GPU_BOUND})


def works(length):
    return [*pretraining(length), segmentation(), leaking(length), *serving(), hoarder(length), *molecular(length),
            *failing(length)]
