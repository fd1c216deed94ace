"""The times that the fleet is seen at, and how rates become counters."""

import math
import random


class Clock:
    """`hours` before `end` (seconds since 1970), a scrape every `step` seconds."""

    def __init__(self, end, hours, step):
        self.step = step
        self.count = int(hours * 3600 // step) + 1
        self.end = end - end % step
        self.start = self.end - (self.count - 1) * step
        self.seconds = [index * step for index in range(self.count)]

    def index(self, seconds):
        """The first scrape at or after so many seconds from the start."""
        return math.ceil(max(0, min(self.count, seconds / self.step)))

    def sampled(self, function):
        return [function(second) for second in self.seconds]

    def total(self, rate, before=0.0):
        """A rate per second as what it adds up to. `before`: seconds that it went on before the start."""
        rates = self.sampled(rate)
        total = rates[0] * before
        totals = [total]
        for earlier, later in zip(rates, rates[1:]):
            total += (earlier + later) / 2 * self.step
            totals.append(total)
        return totals


def wobble(name, depth=0.1, period=1800):
    """A factor around 1 that changes smoothly, the same for the same name."""
    chance = random.Random(name)
    waves = [(chance.uniform(0.3, 1) * period / (number + 1), chance.uniform(0, 2 * math.pi))
             for number in range(4)]
    return lambda second: 1 + depth / 4 * sum(
        math.sin(2 * math.pi * second / length + phase) for length, phase in waves)


def during(first, last, factor=1.0):
    """`factor` from `first` to `last`, else 0."""
    return lambda second: factor if first <= second < last else 0.0


def product(*functions):
    return lambda second: math.prod(function(second) for function in functions)


def added(*functions):
    return lambda second: sum(function(second) for function in functions)
