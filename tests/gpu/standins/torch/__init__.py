"""As much of PyTorch as the scripts of tests/gpu use, on the stand-in libraries: dry_run.sh puts it where PyTorch would be found.

Tensors have sizes and no values. Each operation makes the CUDA calls that PyTorch's eager mode makes: a launch for each elementwise
operation, cudaMemcpyAsync for each copy, cudaMalloc where the cache of freed blocks has none of that size. The stand-ins are those
of STANDIN_RUNTIME and STANDIN_DRIVER.
"""

import collections
import ctypes
import math
import os
from types import SimpleNamespace

__version__ = "stand-in"
uint8, bfloat16, float32 = 1, 2, 4  # bytes

_HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 1, 2, 3
_runtime = ctypes.CDLL(os.environ["STANDIN_RUNTIME"])
_driver = ctypes.CDLL(os.environ["STANDIN_DRIVER"])
calls = collections.Counter()  # of the runtime, by function


class _Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32)]


def _check(function, error):
    if error != 0:
        raise RuntimeError(f"{function} failed: {error}")


def _call(function, *arguments):
    calls[function] += 1
    _check(function, getattr(_runtime, function)(*arguments))


_GRID, _BLOCK = _Dim3(4, 1, 1), _Dim3(128, 1, 1)
_kernel = ctypes.c_void_p()


def _launch(times=1):
    if not _kernel:
        _call("cudaFree", None)  # makes the context
        module = ctypes.c_void_p()
        _check("cuModuleLoadData", _driver.cuModuleLoadData(ctypes.byref(module), b"any image"))
        _check("cuModuleGetFunction", _driver.cuModuleGetFunction(ctypes.byref(_kernel), module, b"elementwise_kernel"))
    for _ in range(times):
        _call("cudaLaunchKernel", _kernel, _GRID, _BLOCK, None, ctypes.c_size_t(0), None)


class _Allocator:
    """Keeps what tensors give back, by size, as PyTorch's caching allocator does."""

    def __init__(self):
        self.cached = collections.defaultdict(list)
        self.stats = {"num_device_alloc": 0, "num_device_free": 0}
        self.reserved = 0

    def take(self, size):
        if self.cached[size]:
            return self.cached[size].pop()
        memory = ctypes.c_void_p()
        _call("cudaMalloc", ctypes.byref(memory), ctypes.c_size_t(size))
        self.stats["num_device_alloc"] += 1
        self.reserved += size
        return memory

    def empty(self):
        for size, blocks in self.cached.items():
            for memory in blocks:
                _call("cudaFree", memory)
                self.stats["num_device_free"] += 1
                self.reserved -= size
        self.cached.clear()


_allocator = _Allocator()


class Tensor:
    def __init__(self, size, on="cpu"):
        self.size, self.on = size, on
        if on == "cuda":
            self.memory = _allocator.take(size)
        elif on == "pinned":
            self.memory = ctypes.c_void_p()
            _call("cudaMallocHost", ctypes.byref(self.memory), ctypes.c_size_t(size))
        else:
            self.memory = ctypes.cast(ctypes.create_string_buffer(size), ctypes.c_void_p)
            self.buffer = self.memory  # cast() keeps the buffer alive by its result

    def __del__(self):
        if self.on == "cuda":
            _allocator.cached[self.size].append(self.memory)
        elif self.on == "pinned":
            _runtime.cudaFreeHost(self.memory)

    def pin_memory(self):
        return Tensor(self.size, "pinned")

    def to(self, device, non_blocking=False):
        return Tensor(self.size, device).copy_(self, non_blocking)

    def copy_(self, other, non_blocking=False):
        kinds = {(True, False): _HOST_TO_DEVICE, (False, True): _DEVICE_TO_HOST, (True, True): _DEVICE_TO_DEVICE}
        kind = kinds[self.on == "cuda", other.on == "cuda"]
        _call("cudaMemcpyAsync", self.memory, other.memory, ctypes.c_size_t(self.size), kind, None)
        if not non_blocking and kind != _DEVICE_TO_DEVICE:
            _call("cudaStreamSynchronize", None)
        return self

    def mul_(self, _):
        _launch()
        return self

    def add_(self, _):
        _launch()
        return self

    def float(self):
        return self.mul_(1)

    def square(self):
        return self.mul_(1)

    def mean(self):
        return self.mul_(1)

    def __getitem__(self, _):
        return self

    def item(self):
        Tensor(float32).copy_(Tensor(float32, "cuda"))
        return 0.0


class _Loss(Tensor):
    """Of a model that has computed it."""

    def __init__(self, kernels):
        super().__init__(float32, "cuda")
        self.kernels = kernels

    def backward(self):
        _launch(2 * self.kernels)


class _Module:
    """A layer, or several, by how many kernels they launch."""

    def __init__(self, kernels, tensors):
        self.kernels, self.tensors = kernels, tensors

    def to(self, _):
        return self

    def bfloat16(self):
        return self

    def parameters(self):
        return range(self.tensors)

    def __call__(self, _):
        _launch(self.kernels)
        return _Loss(self.kernels)


def _several(*modules):
    return _Module(sum(module.kernels for module in modules), sum(module.tensors for module in modules))


class _AdamW:
    def __init__(self, parameters, **_):
        self.tensors = len(parameters)

    def zero_grad(self, set_to_none):
        pass

    def step(self):
        _launch(8 * self.tensors)


def _made(*shape, dtype=float32, device="cpu"):
    shape = shape[0] if isinstance(shape[0], tuple) else shape
    return Tensor(math.prod(shape) * dtype, device)


def ones(*shape, **options):
    return _made(*shape, **options)


def empty(*shape, **options):
    return _made(*shape, **options)


def randn(*shape, **options):
    return _made(*shape, **options)


def empty_like(tensor):
    return Tensor(tensor.size, tensor.on)


def _synchronize():
    _call("cudaDeviceSynchronize")


cuda = SimpleNamespace(is_available=lambda: True, init=lambda: None, synchronize=_synchronize, empty_cache=_allocator.empty,
                       memory_stats=lambda: dict(_allocator.stats), memory_reserved=lambda: _allocator.reserved)
nn = SimpleNamespace(Linear=lambda *_, **__: _Module(2, 2), ReLU=lambda: _Module(1, 0), Sequential=_several,
                     TransformerEncoderLayer=lambda *_, **__: _Module(30, 12),
                     TransformerEncoder=lambda layer, layers, **_: _several(*[layer] * layers))
optim = SimpleNamespace(AdamW=_AdamW)
backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False)))
