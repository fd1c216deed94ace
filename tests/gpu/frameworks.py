#!/usr/bin/env python3
"""Launches of PyTorch (eager, compiled, as a graph), JAX, CuPy, Numba and Triton: the page against CUPTI.

    frameworks.py EXPORTER [--only eager,compiled,graph,jax,cupy,numba,triton] [--steps 200] [--attach auto]

Each framework that is there runs the same steps three times: in a process of its own in which CUPTI counts the launches of the
driver by kernel (count_launches.c), and beside the exporter, traced in full and only counted. Prints one table for each. Needs
root, a GPU, and a compiler with CUPTI, or what pack.sh made, or its path in COUNT_LAUNCHES. Exit code: 0 all equal, 1 not, 77 no framework is there.
"""

import argparse
import collections
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True  # leave the source tree as it is
import compare  # noqa: E402
from training import Exporter, VARIANTS  # noqa: E402

HERE = Path(__file__).resolve().parent
PATIENCE = 60
# In `full` each launch from its start to its end, whatever it costs. At 50 % launches are counted, and no program pauses.
LEVELS = {"full": "0", "counted": "50%"}


def of_torch(make):
    """A step of PyTorch and what waits for the GPU."""
    import torch

    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(8)]).to("cuda")
    return make(torch, model, torch.randn(32, 256, device="cuda")), torch.cuda.synchronize


def eager():
    return of_torch(lambda torch, model, example: lambda: model(example))


def compiled():
    return of_torch(lambda torch, model, example: (lambda fast: lambda: fast(example))(torch.compile(model)))


def graph():
    def make(torch, model, example):
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside), torch.no_grad():
            for _ in range(3):  # what is made at the first use must not be captured
                model(example)
        torch.cuda.current_stream().wait_stream(aside)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured), torch.no_grad():
            model(example)
        return captured.replay
    return of_torch(make)


def jax():
    import jax
    import jax.numpy as numpy

    step = jax.jit(lambda x: numpy.tanh(x @ x) + 1)
    example = numpy.ones((256, 256))
    return lambda: step(example), lambda: step(example).block_until_ready()


def cupy():
    import cupy

    kernel = cupy.RawKernel('extern "C" __global__ void add_one(float *x) { x[threadIdx.x] += 1; }', "add_one")
    example = cupy.zeros(64, dtype=cupy.float32)

    def step():
        kernel((1,), (64,), (example,))
        cupy.multiply(example, 2, out=example)
    return step, cupy.cuda.Device().synchronize


def numba():
    from numba import cuda

    @cuda.jit
    def add_one(x):
        x[cuda.threadIdx.x] += 1

    example = cuda.device_array(64)
    return lambda: add_one[1, 64](example), cuda.synchronize


def triton():
    import torch
    import triton
    import triton.language as language

    @triton.jit
    def add_one(at, size: language.constexpr):
        places = at + language.arange(0, size)
        language.store(places, language.load(places) + 1)

    example = torch.zeros(64, device="cuda")
    return lambda: add_one[(1,)](example, 64), torch.cuda.synchronize


FRAMEWORKS = {function.__name__: function for function in (eager, compiled, graph, jax, cupy, numba, triton)}


class StandinCounter:
    """What count_launches.c says, for a dry run (dry_run.sh)."""

    def launches_begin(self):
        sys.modules["torch"].calls.clear()

    def launches_write(self, path):
        launches = sys.modules["torch"].calls["cudaLaunchKernel"]
        Path(path.decode()).write_text(f"{launches} 0 0\n{launches} elementwise_kernel\n", encoding="utf-8")


def work(name):
    """Answers each line "STEPS FILE" when the steps are done; the file gets what CUPTI counted in them, if it counts."""
    try:
        step, wait = FRAMEWORKS[name]()
    except ImportError as error:
        print(f"missing: {error}", flush=True)
        return 0
    counter = os.environ.get("CUDA_INJECTION64_PATH")
    if counter:  # the same copy that the driver has loaded
        counter = StandinCounter() if hasattr(sys.modules.get("torch"), "calls") else ctypes.CDLL(counter)
    for _ in range(5):  # compiles
        step()
    wait()
    print("ready", flush=True)
    for line in sys.stdin:
        steps, path = line.split()
        if counter:
            counter.launches_begin()
        for _ in range(int(steps)):
            step()
        wait()
        if counter:
            counter.launches_write(path.encode())
        print("done", flush=True)
    return 0


class Worker:
    def __init__(self, name, environment=None):
        self.process = subprocess.Popen([sys.executable, __file__, "--work", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, **(environment or {})})
        self.said = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def run(self, steps, path="-"):
        self.process.stdin.write(f"{steps} {path}\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "done\n":
            sys.exit("the program ended by itself")


def counter_library(folder):
    packed = HERE.parents[1] / "build/gpu/libcount_launches.so"
    if packed.exists():
        return packed
    made = Path(folder, "libcount_launches.so")
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{cuda}/include", f"-I{cuda}/extras/CUPTI/include", HERE / "count_launches.c",
                    "-o", made, f"-L{cuda}/lib64", f"-L{cuda}/extras/CUPTI/lib64", "-lcupti"], check=True)
    return made


def truth_of(name, steps, library, folder):
    """Kernel launches, graph launches, and launches by kernel as the driver names it; or why there is none."""
    path = Path(folder, "truth")
    with Worker(name, {"CUDA_INJECTION64_PATH": str(library)}) as worker:
        if worker.said != "ready":
            return worker.said
        worker.run(steps, path)
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    kernels, graphs, _ = map(int, first.split())
    by_name = collections.Counter()
    for line in lines:
        launches, _, kernel = line.partition(" ")
        by_name[kernel] += int(launches)
    return kernels, graphs, by_name


def plain(names):
    """Names of functions alone: the page demangles, and leaves arguments and long templates away. Without c++filt, C's only."""
    if not shutil.which("c++filt"):
        return {name: name for name in names if not name.startswith("_Z")}
    demangled = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.splitlines()
    return {mangled: re.split(r"[<(]", re.sub(r"^(void|int|bool) ", "", name), maxsplit=1)[0] for mangled, name in zip(names, demangled)}


def settled(exporter, own):
    last = None
    while True:
        page = exporter.page()
        kernels = collections.Counter()
        for metric, labels, value in page.samples:
            if metric == "gpusnoop_cuda_kernel_launches_total" and own.items() <= labels.items() and labels.get("via") == "stream":
                kernels[labels["kernel"]] += int(value)
        now = (kernels, page.sum("gpusnoop_cuda_graph_launches_total", own),
               page.sum("gpusnoop_cuda_kernel_launch_duration_seconds_count", own))
        if now == last:
            return now
        last = now
        time.sleep(0.5)


def await_launches(exporter, worker):
    own = {"pid": str(worker.process.pid)}
    until = time.monotonic() + PATIENCE
    while not exporter.page().sum("gpusnoop_cuda_kernel_launches_total", own):
        if time.monotonic() > until:
            sys.exit("the exporter counts no launches")
        worker.run(10)


def reach(level, worker, exporter, own):
    """Steps until launches are seen in this level. False: this framework's never are."""
    until = time.monotonic() + PATIENCE / 2
    while time.monotonic() < until:
        _, _, timed_before = settled(exporter, own)
        begin = time.monotonic()
        while time.monotonic() < begin + 2:
            worker.run(500)
        kernels, _, timed = settled(exporter, own)
        if kernels and (level == "full") == (timed > timed_before):
            return True
    return False


def check(name, level, steps, truth, binary, attach):
    kernels, graphs, by_name = truth
    VARIANTS["frameworks"] = (f"cuda: {{attach: {attach}, max_overhead: {LEVELS[level]}}}\n"
                              "histograms: [gpusnoop_cuda_kernel_launch_duration_seconds]\n")
    exporter = Exporter(binary, "frameworks")
    # The exporter has attached to its libraries before the other one looks its kernels up.
    with Worker(name) as holder:
        await_launches(exporter, holder)
    with Worker(name) as worker:
        own = {"pid": str(worker.process.pid)}
        is_reached = graphs > 0 or reach(level, worker, exporter, own)
        before, graphs_before, _ = settled(exporter, own)
        worker.run(steps)
        after, graphs_after, _ = settled(exporter, own)
    exporter.stop()
    seen = after - before
    names = plain(list(by_name))
    rows = [("kernels launched", kernels, seen.total()),
            ("graphs launched", graphs, graphs_after - graphs_before),
            ("of unknown kernels", 0, seen["unknown"])]
    own_by_name, page_by_name = collections.Counter(), collections.Counter()
    for mangled, kernel in names.items():
        own_by_name[kernel] += by_name[mangled]
    for kernel, launches in seen.items():
        page_by_name[re.split(r"[<(]", kernel, maxsplit=1)[0]] += launches
    rows += [(kernel, launches, page_by_name[kernel]) for kernel, launches in sorted(own_by_name.items())]
    note = "" if is_reached else " (this level was not reached: launches are of the driver alone, or too few)"
    print(f"== {name}, {level}{note}")
    return compare.print_table(name, rows)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--work":
        return work(sys.argv[2])
    parser = argparse.ArgumentParser()
    parser.add_argument("exporter")
    parser.add_argument("--only", default=",".join(FRAMEWORKS))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--attach", default="auto")
    options = parser.parse_args()
    ran, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        library = os.environ.get("COUNT_LAUNCHES") or counter_library(folder)
        for name in options.only.split(","):
            truth = truth_of(name, options.steps, library, folder)
            if isinstance(truth, str):
                print(f"== {name}: {truth or 'it ended by itself'}")
                failed += not truth.startswith("missing")
                continue
            ran += 1
            for level in LEVELS:
                failed += not check(name, level, options.steps, truth, options.exporter, options.attach)
    return 1 if failed else 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main())
