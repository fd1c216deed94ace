"""Allocates tensors at known lines, as PyTorch's allocator reports it: for tests of sampling.

lines.py LIBC10

Loads the library and prints "loaded". At SIGUSR1 makes its first calls and prints "called". At the next ones goes
through Job's steps: after each it prints "site BYTES LABEL" for each line that holds memory, "device ALLOCATIONS BYTES
FREES BYTES ALLOCATED RESERVED PEAK" of cuda:0, all as they are then, and the step's name.
"""

import ctypes
import signal
import sys

with open(__file__, encoding="utf-8") as source:
    # Of the comments in the code.
    LINES = {line.rsplit("  # ", 1)[-1].strip(): number for number, line in enumerate(source, 1)}

KIB = 1 << 10
MIB = 1 << 20
CUDA_0 = 1  # a c10::Device: its type in the low byte, its number in the high one


def place(function, marker):
    return f"lines.py:{function.__code__.co_qualname}:{LINES[marker]}"


class Allocator:
    def __init__(self, library):
        self.report = library._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
        self.report.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint16]
        self.report.restype = None
        self.next = 0x7F0000000000
        self.allocated = self.reserved = self.peak = 0
        self.allocations = self.allocated_bytes = self.frees = self.freed_bytes = 0

    def allocate(self, size):
        address = self.next
        self.next += size
        self.allocated += size
        self.reserved += size
        self.peak = max(self.peak, self.allocated)
        self.allocations += 1
        self.allocated_bytes += size
        self.report(address, size, self.allocated, self.reserved, CUDA_0)  # report
        return address, size

    def free(self, block):
        address, size = block
        self.allocated -= size
        self.frees += 1
        self.freed_bytes += size
        self.report(address, -size, self.allocated, self.reserved, CUDA_0)


class Job:
    def __init__(self, allocator):
        self.allocator = allocator
        self.weights = []
        self.activations = []
        self.cache = []

    def load(self):
        for _ in range(10):
            self.weights.append(self.allocator.allocate(8 * MIB))  # weights

    def forward(self):
        for _ in range(1000):
            self.activations.append(self.allocator.allocate(512 * KIB))  # activations

    def allocated(self):
        self.load()  # load
        self.forward()  # forward

    def freed(self):
        for _ in range(4):
            self.allocator.free(self.weights.pop())
        for _ in range(500):
            self.allocator.free(self.activations.pop())

    def flooded(self):
        for _ in range(1000):
            self.cache.append(self.allocator.allocate(8 * MIB))  # cache

    def sites(self):
        inside = place(Allocator.allocate, "report")
        step = place(run, "run")
        return [
            (self.weights, [inside, place(Job.load, "weights"), place(Job.allocated, "load")]),
            (self.activations, [inside, place(Job.forward, "activations"), place(Job.allocated, "forward")]),
            (self.cache, [inside, place(Job.flooded, "cache"), step]),
        ]


def wait(word):
    print(word, flush=True)
    signal.sigwait([signal.SIGUSR1])


def run(library):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    allocator = Allocator(ctypes.CDLL(library))
    job = Job(allocator)
    wait("loaded")
    allocator.free(allocator.allocate(512))
    wait("called")
    for step in ("allocated", "freed", "flooded"):
        getattr(job, step)()  # run
        for blocks, places in job.sites():
            if blocks:
                print("site", sum(size for _, size in blocks), " < ".join(places))
        print("device", allocator.allocations, allocator.allocated_bytes, allocator.frees, allocator.freed_bytes,
              allocator.allocated, allocator.reserved, allocator.peak)
        wait(step)


run(sys.argv[1])
