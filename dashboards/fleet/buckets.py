"""Histograms: which share of a lognormal distribution is below each bound of the exporter's."""

import decimal
import functools
import math

# As in exporter/probes/cuda/families.cpp and so on; those of functions are the defaults of config.yaml.
DURATIONS = tuple(base * 10.0**power for power in range(-6, 1) for base in (1, 2.5, 5)) + (10.0,)
ELAPSED = tuple(base * 10.0**power for power in range(-5, 1) for base in (1, 2.5, 5)) + (
    10.0, 30.0, 60.0, 120.0, 300.0)
BANDWIDTHS = (1e8, 1e9, 2.5e9, 5e9, 1e10, 2.5e10, 5e10, 1e11, 5e11)
SIZES = tuple(float(4**power) for power in range(3, 19))
THREADS = tuple(float(4**power) for power in range(0, 18))
FUNCTIONS = (1e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 1.0, 10.0)
FENCES = tuple(1e-6 * 4**power for power in (0, 1, 2, 3, 4)) + tuple(1e-3 * 4**power for power in range(0, 5)) + (
    1.0, 4.0, 16.0)
SYSTEM_CALLS = FENCES + (64.0, 256.0)
PCIE = (2e-7, 5e-7, 1e-6, 2e-6, 5e-6, 1e-5, 5e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
RUN_QUEUE = tuple(1e-6 * 4**power for power in (0, 1, 2, 3, 4)) + tuple(1e-3 * 4**power for power in (0, 1, 2, 3, 4)) + (
    1.0, 4.0)
LAUNCH_GAPS = (1e-5, 5e-5, 2e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.2, 1.0, 10.0)
LIFETIMES = (0.01, 0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0, 604800.0)
CONNECTS = (5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 0.01, 0.05, 0.25, 1.0, 3.0, 10.0, 60.0)
ROUND_TRIPS = (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.5)
BLOCK_REQUESTS = (5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
NVLINK = (1e-7, 2e-7, 5e-7, 1e-6, 2e-6, 5e-6, 1e-5, 1e-4, 1e-3, 1e-2)


@functools.cache
def share_below(bound, mean, spread):
    if mean <= 0:
        return 1.0
    middle = math.log(mean) - spread * spread / 2
    return 0.5 * (1 + math.erf((math.log(bound) - middle) / spread / math.sqrt(2)))


def quantile(mean, spread, deviations):
    return math.exp(math.log(mean) - spread * spread / 2 + deviations * spread)


def text(bound):
    """As the exporter writes a bound: the shortest text that is the same number, without an exponent."""
    return f"{decimal.Decimal(f'{bound:.12g}'):f}"
