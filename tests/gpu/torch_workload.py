#!/usr/bin/env python3
"""PyTorch against the page: what its profiler and its allocator counted of this process.

    torch_workload.py PAGE_URL     works, compares, prints the table; exit code as compare.py
    torch_workload.py PAGE_URL --counted   the same, and its launches must have been only counted (docs/cuda.md)
    torch_workload.py --hold       only keeps PyTorch's libraries in use, until its input ends
    torch_workload.py --launch     the same, and launches so often that all launches of its runtime are only counted
    torch_workload.py --check      exit code 0 if there is PyTorch with a CUDA device

Element-wise operations only: cuBLAS and cuDNN bring a CUDA runtime of their own inside them, statically
linked, which the exporter does not see yet.
"""

import os
import sys
import threading
import time

sys.dont_write_bytecode = True  # leave the source tree as it is
import compare  # noqa: E402

PATIENCE = 10


def work(torch):
    """Launches and copies of known kinds."""
    host = torch.ones(1 << 16)
    pinned = torch.ones(1 << 16).pin_memory()
    for _ in range(50):
        device = host.to("cuda")
        other = pinned.to("cuda", non_blocking=True)
        device.mul_(2.0).add_(other)
        third = torch.empty_like(device)
        third.copy_(device)
        host.copy_(third)
        pinned.copy_(third, non_blocking=True)
        torch.cuda.synchronize()
    # Segments of their own in the caching allocator: calls of cudaMalloc, some of them freed.
    large = [torch.empty((64 + at) << 20, dtype=torch.uint8, device="cuda") for at in range(4)]
    del large[2:]
    torch.cuda.empty_cache()
    return large


def count_calls(torch, run):
    """Runs it under the profiler: how often each CUDA runtime call was made."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        kept = run()
        torch.cuda.synchronize()
    calls = {}
    for event in profiler.events():
        if event.name.startswith("cuda"):
            calls[event.name] = calls.get(event.name, 0) + 1
    return kept, calls


def launch_until_the_end(torch):
    """Some ten thousand launches a second: too many for the level "full", and few enough for a limit of 50 %."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    tensor = torch.ones(64, device="cuda")
    while not ended.wait(0.002):
        for _ in range(30):
            tensor.mul_(1.0)
        torch.cuda.synchronize()


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--counted"]):
        sys.exit(__doc__)
    try:
        import torch
    except ImportError:
        return 1
    if sys.argv[1] == "--check":
        return 0 if torch.cuda.is_available() else 1
    if sys.argv[1] == "--hold":
        print("holding", flush=True)
        sys.stdin.read()
        return 0
    if sys.argv[1] == "--launch":
        print("holding", flush=True)
        launch_until_the_end(torch)
        return 0

    source = sys.argv[1]
    own = {"pid": str(os.getpid())}  # needs labels: {pid: true} for the counters

    def seen(metric, **labels):
        return compare.Page.read(source).sum("gpusnoop_" + metric, {**own, **labels})

    torch.cuda.init()
    work(torch)  # first uses: modules are loaded, buffers made
    torch.cuda.synchronize()
    before_stats = torch.cuda.memory_stats()

    def settled():
        """What the page says now, once it no longer changes."""
        metrics = ("cuda_kernel_launches_total", "cuda_memory_allocations_total", "cuda_memory_frees_total")
        last = None
        while True:
            page = compare.Page.read(source)
            now = {metric: page.sum("gpusnoop_" + metric, own) for metric in metrics}
            now["timed"] = page.sum("gpusnoop_cuda_kernel_launch_duration_seconds_count", own)
            now["async copies"] = page.sum("gpusnoop_cuda_memcpy_total", {**own, "mode": "async"})
            if now == last:
                return now
            last = now
            torch.cuda.synchronize()
            time.sleep(0.3)

    before = settled()
    kept, calls = count_calls(torch, lambda: work(torch))
    stats = torch.cuda.memory_stats()
    reserved = torch.cuda.memory_reserved()
    expected = [
        ("cudaLaunchKernel calls", calls.get("cudaLaunchKernel", 0), "cuda_kernel_launches_total"),
        ("cudaMemcpyAsync calls", calls.get("cudaMemcpyAsync", 0), "async copies"),
    ]
    for what, stat, metric in (("cudaMalloc calls", "num_device_alloc", "cuda_memory_allocations_total"),
                               ("cudaFree calls", "num_device_free", "cuda_memory_frees_total")):
        if stat in stats:  # PyTorch 2.2 and later
            expected.append((what, stats[stat] - before_stats[stat], metric))

    def rows(_):
        now = settled()
        return ([(what, count, now[metric] - before[metric]) for what, count, metric in expected]
                + [("bytes reserved on the device", reserved, seen("cuda_memory_outstanding_bytes", memory_kind="device")),
                   ("frees of untracked memory", 0, seen("cuda_memory_untracked_frees_total")),
                   ("launches of unknown kernels", 0, seen("cuda_kernel_launches_total", kernel="unknown")),
                   ("errors", 0, seen("cuda_api_errors_total"))])

    passed = compare.print_table("torch", compare.poll(source, rows, PATIENCE))
    others = {name: count for name, count in sorted(calls.items())
              if "Launch" in name or "Memcpy" in name or "Malloc" in name or "Free" in name}
    print(f"PyTorch {torch.__version__}; calls that its profiler saw: {others}")
    timed = settled()["timed"] - before["timed"]
    print(f"launches with a duration: {timed:.0f} of {calls.get('cudaLaunchKernel', 0)}")
    is_level_right = timed < calls.get("cudaLaunchKernel", 0) if sys.argv[2:] else timed == calls.get("cudaLaunchKernel", 0)
    del kept
    return 0 if passed and is_level_right and calls.get("cudaLaunchKernel", 0) > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
