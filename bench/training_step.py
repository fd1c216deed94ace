#!/usr/bin/env python3
"""What tracing takes from a training step: a loop like PyTorch's eager mode, on the stand-in libraries.

A step is two copies to the device, 100 launches with time of the framework before each, a copy of the loss and one
synchronization. A launch takes 4 µs of the host's time. Where the host is the bottleneck ("launch-bound"), the GPU needs half the
time that the host needs; where the GPU is, the host has time to spare. The exporter in each attach mode, and bpftrace, take turns.
Beside each of them two loops take turns, a slice of time each: one is traced, the other uses copies of the libraries that nobody
traces, so that what else the machine does affects both. Needs root, and what `cmake --build --preset release --target bench` builds:

    bench/training_step.py [--rounds 5] [--seconds 0.4] [--quick] [--json FILE]
"""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import bpftrace
import figures
from dialogue import Dialogue
from exporter import Exporter, total_of

RATES = (5_000, 20_000, 50_000, 100_000, 150_000)  # launches a second, untraced
LAUNCH_NS = 4000  # of the host: submit_ns in training_step/loop.cpp
NAME = "training_loop"
# The functions of the loop that the exporter counts, by the library's place in the build.
FUNCTIONS = {
    "standin/12/libcudart.so.12": ("cudaMemcpyAsync", "cudaLaunchKernel", "cudaStreamSynchronize"),
    "standin/driver/libcuda.so.1": ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernel", "cuStreamSynchronize")}
MODES = ("session", "multi", "perf")
UNTRACED = "training_step_untraced"  # the folder with the copies that nobody traces
SLICE = 0.05  # seconds
LIMIT = 3  # percent: the default
# Seconds: until what a process could save up is used up, and several turns and pauses after that.
LIMIT_WARM_UP, LIMIT_SECONDS = 15, 40
# A loop with a smaller part of its rate than this does not have it. The copies and the synchronization are in the rest.
REACHED = 0.9


class Load:
    """One rate: what the host does before a launch, and what the GPU does after it. `alone`: a step has no other calls."""

    def __init__(self, bound, rate, alone=False):
        self.bound, self.rate, self.alone = bound, rate, alone
        period = 1e9 / rate
        spare = max(0.0, period - LAUNCH_NS)
        self.framework_ns = spare if bound == "launch" else spare / 2
        self.kernel_ns = -1 if alone else period / 2 if bound == "launch" else period


LOADS = [Load(bound, rate) for bound in ("GPU", "launch") for rate in RATES]


class Loop(Dialogue):
    """The program."""

    def __init__(self, options, libraries=None):
        """`libraries`: the folder with those that it uses; the build's, if there is none."""
        super().__init__(options.build / "bench" / NAME, *options.speed,
                         **({"LD_LIBRARY_PATH": str(libraries)} if libraries else {}))
        self.launches = 0
        self.run(LOADS[-1], 0)  # it has loaded all when it has answered

    def run(self, load, seconds):
        """(steps a second, ns of CPU time for each launch)"""
        steps, launches, took, cpu = map(int, self.say(f"{load.framework_ns:.0f} {load.kernel_ns:.0f} {seconds}").split())
        self.launches += launches
        return steps / took * 1e9, cpu / launches


def config(mode, limit):
    """The default configuration, but for the mode, the limit, and for what runs beside the tests."""
    return (f"cuda: {{attach: {mode}, max_overhead: {limit}}}\ntorch: {{attach: {mode}}}\nfunctions: {{attach: {mode}}}\n"
            f'discovery: {{exclude: ["*/standin/company/*", "*/{UNTRACED}/*"]}}\n')


def wait_until_traced(exporter, loop):
    """Until it has counted as many launches of a step as there are, twice, and knows what a probe costs."""
    same = 0
    for _ in range(300):
        before = launches_on(exporter.page())
        done = loop.launches
        loop.run(LOADS[-1], 0)
        time.sleep(0.02)
        same = same + 1 if launches_on(exporter.page()) - before == loop.launches - done else 0
        if same >= 2 and "gpusnoop_probe_cost_seconds{" in exporter.page():
            return
        time.sleep(0.05)
    sys.exit(f"the exporter does not trace {NAME}: {exporter.said()}")


def launches_on(page):
    return total_of(page, "gpusnoop_cuda_kernel_launches_total", f'comm="{NAME}"')


def estimates_on(page):
    """Of the launches in pauses: the lower bound, the estimate, the upper bound."""
    bounds = {bound: total_of(page, "gpusnoop_cuda_launches_unobserved_bound_total", f'comm="{NAME}"', f'bound="{bound}"')
              for bound in ("lower", "upper")}
    return bounds["lower"], total_of(page, "gpusnoop_cuda_launches_unobserved_total", f'comm="{NAME}"'), bounds["upper"]


class Nobody:
    """Who watches the loop, and what it has seen since: the launches, and what the page says that they cost. None: not known."""

    def launches(self):
        return None

    def cost(self):
        return None


class Page(Nobody):
    def __init__(self, exporter):
        self.exporter = exporter
        self.before = launches_on(exporter.page())

    def launches(self):
        return launches_on(self.exporter.page()) - self.before

    def launches_and_estimates(self):
        page = self.exporter.page()
        return launches_on(page), *estimates_on(page)

    def cost(self):
        return self.exporter.total("gpusnoop_overhead_seconds_total", f'comm="{NAME}"')


class Ours:
    has_cost = True

    def __init__(self, mode, limit="0"):
        self.name = f"exporter, {mode}"
        self.config = config(mode, limit)

    def start(self, options, stack):
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        return stack.enter_context(Exporter(options.build / "gpusnoop_exporter", folder, self.config, leaves_helper=options.quick))

    @staticmethod
    def watch(exporter, loop):
        wait_until_traced(exporter, loop)
        return Page(exporter)

    def begin(self, options, loop, stack):
        return self.watch(self.start(options, stack), loop)


class Counts(Nobody):
    def __init__(self, tracer):
        self.tracer = tracer

    def launches(self):
        return self.tracer.counts().get("cuLaunchKernel", 0)


class Theirs:
    has_cost = False

    def __init__(self, what, script):
        self.name, self.script = f"bpftrace, {what}", script

    def begin(self, options, _loop, stack):
        functions = [(str((options.build / library).resolve()), name) for library, names in FUNCTIONS.items() for name in names]
        tracer = stack.enter_context(bpftrace.Bpftrace(self.script(functions)))
        return Counts(tracer) if self.script is bpftrace.count else Nobody()


class Measured:
    """One load in one turn."""

    def __init__(self, traced, untraced, watch, load, seconds):
        before, done = watch.cost(), traced.launches
        pairs = []
        for number in range(max(1, round(seconds / SLICE))):
            loops = (untraced, traced) if number % 2 == 0 else (traced, untraced)
            ran = {loop: loop.run(load, min(SLICE, seconds)) for loop in loops}
            pairs.append((ran[untraced], ran[traced]))
        after = watch.cost()
        self.rate = statistics.median(plain[0] for plain, _ in pairs)  # untraced
        self.kept = statistics.median(slow[0] / plain[0] for plain, slow in pairs)
        self.loses_ns = statistics.median(slow[1] - plain[1] for plain, slow in pairs)  # with each launch
        # By the page, for each launch.
        self.cost_ns = None if after is None else (after - before) * 1e9 / (traced.launches - done)

    def says_over_loses(self):
        return self.cost_ns / max(1.0, self.loses_ns)


def all_ways(options):
    # A test leaves perf events to attach_time and call_cost: the kernel would detach from these libraries for more than a minute,
    # and slow the next benchmarks down.
    ways = list(map(Ours, MODES[:2] if options.quick else MODES))
    if bpftrace.path():
        ways += [Theirs("counts", bpftrace.count), Theirs("latency histograms", bpftrace.latency)]
    else:
        print("training_step.py: no bpftrace here: its columns are left out", file=sys.stderr)
    return ways


def take_turn(options, way):
    """load -> Measured"""
    with Loop(options) as traced, Loop(options, options.untraced) as untraced, ExitStack() as stack:
        watch = way.begin(options, traced, stack)
        done = traced.launches
        found = {load: Measured(traced, untraced, watch, load, options.seconds) for load in LOADS}
        seen = watch.launches()
        if seen is not None and seen != traced.launches - done:
            sys.exit(f"{way.name} counted {seen:.0f} of {traced.launches - done} launches")
    return found


def rate_text(load, found):
    """What the loop reached untraced, if that is not the rate that it should have."""
    reached = 100 * untraced_rate(load, found)
    text = f"{load.rate:,}"
    return text if reached >= REACHED * load.rate else f"{text} (reaches {reached:,.0f} here)"


def untraced_rate(load, found):
    """Steps a second."""
    return statistics.median(turn[load].rate for turns in found.values() for turn in turns)


def table(results, options, found):
    rows = []
    for load in LOADS:
        row = [f"{load.bound}-bound", rate_text(load, found), f"{untraced_rate(load, found):.1f}"]
        rows.append(row + [figures.ratio_text([turn[load].kept for turn in turns]) for turns in found.values()])
    results.table(
        "Training step throughput under tracing",
        "A loop like PyTorch's eager mode, on stand-in libraries. A step is two copies to the device, 100 launches of 4 µs with framework time before "
        "each, a copy back and one synchronization. Launch-bound: the GPU waits for the host half of the time. GPU-bound: the host has time to spare. "
        "The table has the untraced steps per second, and the ratio to them: with the exporter seeing each launch from start to end "
        "(`cuda: {max_overhead: 0}`) in each attach mode, and with bpftrace, which traces only the functions that the loop calls "
        "(one probe per function for its counts, two for its histograms, as the exporter has). "
        f"{options.rounds} rounds of {options.seconds} s for each cell; all alternatives take turns, and so do a traced and an untraced loop.",
        ["loop", "launches a second", "steps a second", *(way.name for way in found)], rows)


def readme_text(found, by_default):
    """The four numbers of README.md. `by_default`: rate -> what a launch-bound loop keeps with the default configuration."""
    rates = (20_000, 100_000)
    text = ("Training steps per second with the exporter in its default configuration, relative to untraced, on stand-in libraries ([docs/benchmarks.md](docs/benchmarks.md) has more):\n\n"
            "| bottleneck | " + " | ".join(f"{rate:,} launches a second" for rate in rates) + " |\n|---|---|---|\n")
    best = next(way for way in found if way.has_cost)
    of_gpu = {load.rate: statistics.median(turn[load].kept for turn in found[best]) for load in LOADS if load.bound == "GPU"}
    for name, kept in (("the GPU", of_gpu), ("the host (kernel launches)", by_default)):
        text += f"| {name} | " + " | ".join(f"{kept[rate]:.0%}" if rate in kept else "" for rate in rates) + " |\n"
    return text


def overhead_table(results, found):
    loads = [load for load in LOADS if load.bound == "launch"]
    ours = [way for way in found if way.has_cost]
    rows = []
    for load in loads:
        for way in ours:
            turns = [turn[load] for turn in found[way]]
            rows.append([rate_text(load, found), way.name, f"{statistics.median(turn.loses_ns for turn in turns):.0f}",
                         f"{statistics.median(turn.cost_ns for turn in turns):.0f}",
                         figures.ratio_text([turn.says_over_loses() for turn in turns])])
    results.table(
        "Reported and actual overhead",
        "For the launch-bound loop above, in nanoseconds of CPU time per launch: the actual overhead compared with the untraced loop, and the overhead "
        "that `gpusnoop_overhead_seconds_total` reports. At a low rate, the loop's own time varies by more than a traced launch costs.",
        ["launches a second", "traced by", "actual", "reported", "reported over actual"], rows)
    for way in ours:
        ratios = [turn[loads[-1]].says_over_loses() for turn in found[way]]
        results.bar(f"gpusnoop_overhead_seconds_total over actual overhead of the launch-bound loop, {way.name}", "0.75x to 1.25x",
                    figures.ratio_text(ratios), 0.75 <= statistics.median(ratios) <= 1.25,
                    "the cost of a probe is measured on a function of the exporter, whose code and data are cached")


class Limited:
    """One rate beside an exporter with a limit for what it costs. The loop runs all the time, as the limit is held on average."""

    def __init__(self, options, way, exporter, load):
        plain_seconds, warm_up, seconds = (0.1, 0.1, 0.2) if options.quick else (3, LIMIT_WARM_UP, LIMIT_SECONDS)
        with Loop(options) as traced, Loop(options, options.untraced) as untraced:
            watch = way.watch(exporter, traced)
            plain = untraced.run(load, plain_seconds)[0]
            traced.run(load, warm_up)
            done, seen_before = traced.launches, watch.launches_and_estimates()
            rate = traced.run(load, seconds)[0]
            made = traced.launches - done
            seen, lower, estimated, upper = (now - before for now, before in zip(watch.launches_and_estimates(), seen_before))
            self.seen = seen / made
            self.lower, self.shown, self.upper = ((seen + launches) / made for launches in (lower, estimated, upper))
            self.kept = 2 * rate / (plain + untraced.run(load, plain_seconds)[0])


def limited_table(results, options):
    """rate -> what is kept in the best mode. One round: each cell takes a minute."""
    loads = [load for load in LOADS if load.bound == "launch"]
    loads = loads[-1:] if options.quick else loads
    alone = Load("launch", RATES[-1], alone=True)
    found, found_alone = {}, {}
    for mode in MODES[:1] if options.quick else MODES:
        way = Ours(mode, limit=f"{LIMIT}%")
        # One exporter for all rates: by perf it takes longer than a minute to detach. Each loop is a process, whose limit is its own.
        with ExitStack() as stack:
            exporter = way.start(options, stack)
            found[mode] = [Limited(options, way, exporter, load) for load in loads]
            found_alone[mode] = Limited(options, way, exporter, alone)
    results.table(
        "Training step throughput by default",
        f"The launch-bound loop with the exporter in its default configuration (`cuda: {{max_overhead: {LIMIT}%}}`), from its {LIMIT_WARM_UP}th second on: "
        "its steps per second relative to an untraced loop before and after it. In parentheses: the share of its launches that were counted, and the share "
        "that they are with the estimate of the others (`gpusnoop_cuda_launches_unobserved_total`). The last row has the bounds of that share, too "
        "(`gpusnoop_cuda_launches_unobserved_bound_total`).",
        ["launches a second", *found],
        [[f"{load.rate:,}", *(f"{limited.kept:.3f} ({limited.seen:.0%}, {limited.shown:.1%})" for limited in row)]
         for load, row in zip(loads, zip(*found.values()))]
        + [[f"{alone.rate:,}, without copies and waits", *(f"{limited.kept:.3f} ({limited.seen:.0%}, {limited.shown:.1%}; {limited.lower:.1%} to "
                                                          f"{limited.upper:.1%})" for limited in found_alone.values())]])
    for mode, limited in found_alone.items():
        results.bar(f"launches of a loop without copies and waits, within their bounds, {mode}", "lower <= 1 <= upper",
                    f"{limited.lower:.3f} to {limited.upper:.3f}", limited.lower <= 1 <= limited.upper,
                    "the loop's own speed varies between observed seconds and pauses")
    for mode, cells in found.items():
        least = min(limited.kept for limited in cells)
        results.bar(f"launch-bound loop in the default configuration, steps over untraced, lowest of all rates, {mode}", ">= 0.97x",
                    f"{least:.3f}x", least >= 0.97, "detaching perf events takes seconds, during which they still cost time")
        worst = max((limited.shown for limited in cells), key=lambda shown: abs(shown - 1))
        results.bar(f"launches counted and estimated over those made in the default configuration, worst of all rates, {mode}", "0.95x to 1.05x",
                    f"{worst:.3f}x", 0.95 <= worst <= 1.05, "a turn by perf is as long as attaching takes, and has few of the other calls")
    return {load.rate: limited.kept for load, limited in zip(loads, found[MODES[0]])}


def copy_libraries(options, folder):
    untraced = Path(folder, UNTRACED)
    untraced.mkdir()
    for library in FUNCTIONS:
        shutil.copy(options.build / library, untraced)
    return untraced


def measure(options):
    options.speed = subprocess.run([options.build / "bench" / NAME, "--calibrate"], stdout=subprocess.PIPE, check=True,
                                   text=True).stdout.split()
    ways = all_ways(options)
    found = {way: [] for way in ways}
    results = figures.Results()
    with tempfile.TemporaryDirectory() as folder:
        options.untraced = copy_libraries(options, folder)
        if options.only_limited:
            limited_table(results, options)
            results.give(options.json)
            return
        for number in range(options.rounds):
            for at in range(len(ways)):
                # Each round begins with another way, so that no way always follows the same one.
                way = ways[(at + number) % len(ways)]
                found[way].append(take_turn(options, way))
        table(results, options, found)
        by_default = limited_table(results, options)
    overhead_table(results, found)
    results.readme = readme_text(found, by_default)
    results.give(options.json)


def main():
    parser = figures.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each load and loop in a turn (0.4)")
    parser.add_argument("--only-limited", action="store_true", help="only the table of what a limit leaves")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.02
    if os.geteuid() != 0:
        sys.exit("needs root, to attach")
    measure(options)


if __name__ == "__main__":
    main()
