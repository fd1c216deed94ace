#!/usr/bin/env python3
"""What a program pays for its launches while its neighbours change the level at which the exporter observes launches.

All use the same copy of the runtime, and the level belongs to the file (docs/cuda.md). One program, the bystander, launches now and then;
its neighbours rest, or one of them launches so fast that launches are only counted, or they do so one after the other: then the exporter
exchanges the probes of all of them all the time. Beside the bystander, a loop on libraries that nobody traces takes turns with it, as in
training_step.py. Needs root, and what `cmake --build --preset release --target bench` builds:

    bench/bystander.py [--rounds 5] [--neighbours 64] [--seconds 10] [--quick] [--json FILE]
"""
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager

import figures
from training_step import LIMIT, MODES, NAME, Load, Loop, config, copy_libraries, wait_until_traced
from exporter import Exporter

# A step of 100 launches now and then: so few that it is observed in full, and in so little time that the loop's own time is known well.
BYSTANDER, BETWEEN_STEPS = Load("launch", 100_000), 0.04  # seconds
FAST_SECONDS, SLOW_SECONDS = 1.0, 1.5  # of one neighbour after the other
# The exporter logs one of these for each exchange of a file's links.
EXCHANGES = ("attached to kernel launches where they enter the driver", "attached to both ends of kernel launches again")
MOST = 1.1


class Neighbours:
    """Programs that share the bystander's runtime, and rest but for what they are told."""

    def __init__(self, options, stack):
        self.all = []
        for number in range(options.neighbours):
            # Twenty launches, and a rest of a millisecond: too much for the level "full", and not for the limit.
            process = subprocess.Popen([options.build / "standin/launcher", "paced", "20", "--rate", "1", "--name", f"neighbour{number}"],
                                       stdout=subprocess.PIPE, text=True)
            stack.callback(self.end, process)
            self.all.append(process)
        for process in self.all:
            while process.stdout.readline() != "slow\n":
                if process.poll() is not None:
                    sys.exit("a neighbour ended by itself")
            process.send_signal(signal.SIGUSR1)  # idle

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdout.close()

    @contextmanager
    def resting(self):
        yield

    @contextmanager
    def counted(self):
        self.all[0].send_signal(signal.SIGUSR2)
        yield
        self.rest(self.all[0])

    @contextmanager
    def changing(self):
        stop = threading.Event()
        thread = threading.Thread(target=self.change, args=[stop])
        thread.start()
        yield
        stop.set()
        thread.join()

    def change(self, stop):
        for process in itertools.cycle(self.all):
            process.send_signal(signal.SIGUSR2)
            stop.wait(FAST_SECONDS)
            self.rest(process)
            if stop.wait(SLOW_SECONDS):
                return

    @staticmethod
    def rest(process):
        process.send_signal(signal.SIGUSR1)  # slow
        time.sleep(0.1)
        process.send_signal(signal.SIGUSR1)  # idle


class Measured:
    """The bystander in one of its situations."""

    def __init__(self, traced, untraced, exporter, seconds):
        before = exchanges(exporter)
        pairs = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            loops = (untraced, traced) if len(pairs) % 2 == 0 else (traced, untraced)
            ran = {loop: loop.run(BYSTANDER, 0) for loop in loops}
            pairs.append((ran[untraced], ran[traced]))
            time.sleep(BETWEEN_STEPS)
        self.exchanges = exchanges(exporter) - before
        # The mean, as there are two levels while the neighbours change; without the twentieth at each end, in which something else ran.
        added = sorted(slow[1] - plain[1] for plain, slow in pairs)
        self.cost_ns = statistics.mean(added[len(added) // 20:len(added) - len(added) // 20])
        # By the time that all steps took: where an exchange stops the program, that is in few of them.
        self.kept = sum(1 / plain[0] for plain, _ in pairs) / sum(1 / slow[0] for _, slow in pairs)


def exchanges(exporter):
    said = exporter.said()
    return sum(said.count(line) for line in EXCHANGES)


SITUATIONS = ("resting", "counted", "changing")


def measure_mode(options, mode):
    """situation -> [Measured]"""
    found = {situation: [] for situation in SITUATIONS}
    with ExitStack() as stack:
        neighbours = Neighbours(options, stack)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        exporter = stack.enter_context(Exporter(options.build / "gpusnoop_exporter", folder, "log: {level: debug}\n" + config(mode, f"{LIMIT}%"),
                                                leaves_helper=options.quick))
        traced = stack.enter_context(Loop(options))
        untraced = stack.enter_context(Loop(options, options.untraced))
        wait_until_traced(exporter, traced)
        for number in range(options.rounds):
            for at in range(len(SITUATIONS)):
                situation = SITUATIONS[(at + number) % len(SITUATIONS)]
                time.sleep(0 if options.quick else 2)  # until the level before is over
                with getattr(neighbours, situation)():
                    if situation == "counted":
                        time.sleep(FAST_SECONDS)
                    found[situation].append(Measured(traced, untraced, exporter, options.seconds))
    if not options.quick and not all(turn.exchanges for turn in found["changing"]):
        sys.exit(f"{mode}: no links were exchanged while the neighbours changed")
    return found


def report(results, options, found):
    rows = []
    for mode, situations in found.items():
        for situation, turns in situations.items():
            over = [turn.cost_ns / max(1.0, rest.cost_ns) for turn, rest in zip(turns, situations["resting"])]
            rows.append([mode, situation, f"{statistics.median(turn.cost_ns for turn in turns):.0f}", figures.ratio_text(over),
                         figures.ratio_text([turn.kept for turn in turns]), f"{sum(turn.exchanges for turn in turns)}"])
        over = [turn.cost_ns / max(1.0, rest.cost_ns) for turn, rest in zip(situations["changing"], situations["resting"])]
        results.bar(f"a bystander's launch while {options.neighbours} neighbours change levels, over the same while they rest, {mode}", f"<= {MOST}x",
                    figures.ratio_text(over), statistics.median(over) <= MOST,
                    "an exchange takes the lock of every process's mappings at each of the functions")
    results.table(
        "A bystander's launch while neighbours change levels",
        f"A loop that makes 100 launches each {BETWEEN_STEPS * 1000:.0f} ms beside {options.neighbours} other programs on the same libraries, with the "
        "default configuration. Resting: they launch nothing, and the loop is observed in full. Counted: one of them launches so fast that all launches are only "
        "counted. Changing: one after the other does so for a second, and rests. The table has the CPU time that tracing adds to a launch, this over the "
        "same while the neighbours rest, the steps per second relative to a loop on libraries that nobody traces, and how often links were exchanged. "
        f"{options.rounds} rounds of {options.seconds:g} s.",
        ["attached by", "neighbours", "ns per launch", "over resting", "steps over untraced", "exchanges"], rows)


def main():
    parser = figures.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--neighbours", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10, help="of each situation in a round (10)")
    options = parser.parse_args()
    modes = MODES
    if options.quick:
        options.rounds, options.neighbours, options.seconds, modes = 1, 8, 1, MODES[:1]
    if os.geteuid() != 0:
        sys.exit("needs root, to attach")
    options.speed = subprocess.run([options.build / "bench" / NAME, "--calibrate"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    results = figures.Results()
    with tempfile.TemporaryDirectory() as folder:
        options.untraced = copy_libraries(options, folder)
        report(results, options, {mode: measure_mode(options, mode) for mode in modes})
    results.give(options.json)


if __name__ == "__main__":
    main()
