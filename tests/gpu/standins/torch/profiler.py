"""The calls of the runtime, as PyTorch's profiler lists them."""

import collections
import enum
from types import SimpleNamespace

import torch


class ProfilerActivity(enum.Enum):
    CPU = 0
    CUDA = 1


class profile:  # pylint: disable=invalid-name
    def __init__(self, activities):
        self.activities = activities
        self.before = collections.Counter()
        self.made = collections.Counter()

    def __enter__(self):
        self.before = collections.Counter(torch.calls)
        return self

    def __exit__(self, *_):
        self.made = torch.calls - self.before

    def events(self):
        return [SimpleNamespace(name=name) for name, times in self.made.items() for _ in range(times)]
