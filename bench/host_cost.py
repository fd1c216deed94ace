#!/usr/bin/env python3
"""What the probes of the host cost: of a switch from one thread to another, and of a machine that does nothing else.

Two threads give one CPU to each other, in a process that nobody follows (a bystander), in one whose threads launch kernels, and
in one that is followed, whose two threads launch nothing. Without a program at the switch, with an empty one, beside runqlat of
libbpf-tools and beside the exporter with all probes of the host, in turns. Then the same for hackbench, which keeps all CPUs busy
with switches; and a program that connects to itself, without the exporter and beside it. What a switch loses is less than what
such runs differ by on most machines, so the kernel also counts the time in the programs (sysctl kernel.bpf_stats_enabled, in
runs of their own). Needs root, and what
`cmake --build --preset release --target bench` builds:

    bench/host_cost.py [--rounds 11] [--switches 40000] [--connections 5000] [--quick]
                       [--json FILE]
"""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import figures
from dialogue import Dialogue
from exporter import Exporter

# Nothing but these probes and what they follow processes by; and not what runs beside the tests.
CONFIG = """
histograms: [gpusnoop_host_runqueue_latency_seconds]
host:
  read_interval: 1s
  time: {enabled: true}
  life: {enabled: true}
  tasks: {enabled: true}
  pressure: {enabled: true}
  memory: {enabled: true}
  net: {enabled: true}
functions: {enabled: false}
discovery: {exclude: ["*/standin/company/*"]}
"""
RUNQLAT_HOOKS = 3
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
HACKBENCH = ("hackbench", "--groups", "4")
LIMIT = ("the call of the program, as for an empty one; then a check whether the thread has any storage, and for a traced thread "
         "its account there: some thirty reads of the kernel's own account of the thread, and as many additions")


class Switches(Dialogue):
    """The program with the two threads."""

    def __init__(self, options):
        super().__init__(options.build / "bench" / "switches")

    def cost(self, by, switches):
        """Nanoseconds of a switch, after some that are not counted."""
        self.say(f"{by} {max(1, switches // 20)}")
        return float(self.say(f"{by} {switches}"))


@contextmanager
def nothing(_options, _followed, _other):
    yield None


@contextmanager
def empty(options, _followed, _other):
    with Switches(options) as holder:
        holder.say("attach")
        yield holder.process.pid


def links_of(pid):
    """How many links to BPF programs the process holds. It opens and closes files meanwhile."""
    found = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += "link" in os.readlink(descriptor)
        except FileNotFoundError:
            pass
    return found


@contextmanager
def runqlat(_options, _followed, _other):
    process = subprocess.Popen(["runqlat", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while links_of(process.pid) < RUNQLAT_HOOKS:
            if time.monotonic() > until or process.poll() is not None:
                sys.exit("runqlat does not attach")
            time.sleep(0.02)
        yield process.pid
    finally:
        process.kill()
        process.wait()


@contextmanager
def ours(options, followed, other):
    with tempfile.TemporaryDirectory() as folder, Exporter(options.build / "gpusnoop_exporter", folder, CONFIG) as exporter:
        until = time.monotonic() + 30
        while followed and exporter.total("gpusnoop_host_launch_threads", 'comm="switches"') != 2:
            if time.monotonic() > until:
                sys.exit(f"the exporter does not follow the launching threads: {exporter.said()}")
            followed.say("launch")
            time.sleep(0.02)
        while other and not exporter.total("gpusnoop_host_runqueue_latency_seconds_count", 'comm="followed"'):
            if time.monotonic() > until:
                sys.exit(f"the exporter does not follow the other threads: {exporter.said()}")
            other.say("follow")
            other.cost("futex", 100)
            time.sleep(0.02)
        yield exporter.process.pid


WAYS = {"no program": nothing, "empty program": empty, "runqlat": runqlat, "ours": ours}


def in_turns(options, turn):
    """way -> what `turn(way)` gives, by round; each round begins with another way."""
    names = [name for name in WAYS if name != "runqlat" or shutil.which("runqlat")]
    found = {name: [] for name in names}
    for number in range(options.rounds):
        for at in range(len(names)):
            name = names[(at + number) % len(names)]
            found[name].append(turn(WAYS[name]))
    return found


def added(found, name, to, cell):
    """The ratio of what two ways add, by round."""
    none = [turn[cell] for turn in found["no program"]]
    return [(turn[cell] - base) / (other[cell] - base) for turn, other, base in zip(found[name], found[to], none)]


def inside(found, name, to, cell):
    """The ratio of the time in two ways' programs, by round."""
    cell += ("in programs",)
    return [turn[cell] / other[cell] for turn, other in zip(found[name], found[to])]


def bar(results, what, ratios, most):
    ratio = statistics.median(ratios)
    results.bar(what, f"<= {most}x", figures.ratio_text(ratios), ratio <= most, LIMIT)


def in_programs(pid):
    """Nanoseconds in the BPF programs that the process holds, while the kernel counts them. It opens and closes files meanwhile."""
    spent = 0
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines = file.read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            continue
        spent += sum(int(line.split()[1]) for line in lines if line.startswith("run_time_ns:"))
    return spent


@contextmanager
def counted_programs():
    before = STATS.read_text(encoding="ascii")
    STATS.write_text("1", encoding="ascii")
    try:
        yield
    finally:
        STATS.write_text(before, encoding="ascii")


def switches(results, options):
    cells = [(of, by) for of in ("bystander", "launching threads", "other traced threads") for by in ("futex", "pipe")]

    def turn(way):
        with (Switches(options) as bystander, Switches(options) as followed, Switches(options) as other,
              way(options, followed, other) as holder):
            programs = dict(zip(("bystander", "launching threads", "other traced threads"), (bystander, followed, other)))
            costs = {cell: programs[cell[0]].cost(cell[1], options.switches) for cell in cells}
            if holder:
                with counted_programs():
                    for cell in cells:
                        before = in_programs(holder)
                        programs[cell[0]].cost(cell[1], options.switches)
                        times = 2 * (options.switches + max(1, options.switches // 20))
                        costs[cell + ("in programs",)] = (in_programs(holder) - before) / times
            return costs

    found = in_turns(options, turn)
    rows = []
    for cell in cells:
        base = statistics.median(turn[cell] for turn in found["no program"])
        for name in found:
            cost = statistics.median(turn[cell] for turn in found[name])
            over = name not in ("no program", "empty program")
            counted = [turn[cell + ("in programs",)] for turn in found[name]] if name != "no program" else []
            rows.append([f"{cell[0]}, by {cell[1]}", name, f"{cost:.0f}", "" if name == "no program" else f"{cost - base:.0f}",
                         figures.ratio_text(added(found, name, "empty program", cell)) if over else "",
                         f"{statistics.median(counted):.0f}" if counted else ""])
    results.table("Cost of a context switch",
                  f"Two threads wake each other on one CPU, {options.switches} times each in each of {options.rounds} rounds; the alternatives "
                  "take turns. Wall time of a switch, medians. The bystander is an untraced process; the launching threads have launched a kernel; "
                  "in the process of the other traced threads, a third thread has. The last column is the kernel's measurement of the time in the "
                  "programs, from separate runs; it includes two extra clock reads.",
                  ["", "", "ns per switch", "added ns", "added, over the empty program", "ns in the programs"], rows)
    # By the kernel's count, as what the wall times add varies by more than that from turn to turn.
    for cell, most in zip(cells, (1.35, 1.35, 3, 5, 3, 5)):
        bar(results, f"time in the programs at a switch, {cell[0]}, by {cell[1]}: over an empty program",
            inside(found, "ours", "empty program", cell), most)
    if "runqlat" in found:
        for cell, most in zip(cells, (0.2, 0.2, 0.35, 0.5, 0.35, 0.5)):
            bar(results, f"time in the programs at a switch, {cell[0]}, by {cell[1]}: over runqlat's",
                inside(found, "ours", "runqlat", cell), most)


def connections(results, options):
    ways = {"no program": nothing, "ours": ours}

    def turn(name):
        with Switches(options) as bystander, Switches(options) as followed, ways[name](options, followed, None) as holder:
            costs = {}
            for of, program in (("bystander", bystander), ("GPU process", followed)):
                costs[of] = program.cost("connect", options.connections)
                if holder:
                    with counted_programs():
                        before = in_programs(holder)
                        program.cost("connect", options.connections)
                        times = options.connections + max(1, options.connections // 20)
                        costs[of, "in programs"] = (in_programs(holder) - before) / times
            return costs

    found = {name: [] for name in ways}
    for number in range(options.rounds):
        for name in sorted(ways, reverse=number % 2 == 1):
            found[name].append(turn(name))
    rows = []
    for of in ("bystander", "GPU process"):
        base = [turn[of] for turn in found["no program"]]
        cost = [turn[of] for turn in found["ours"]]
        counted = statistics.median(turn[of, "in programs"] for turn in found["ours"])
        rows.append([of, f"{statistics.median(base):.0f}", f"{statistics.median(cost):.0f}",
                     figures.ratio_text([one / other for one, other in zip(cost, base)]), f"{counted:.0f}"])
    results.table("Cost of a TCP connection",
                  f"A program makes {options.connections} connections to itself and closes both ends, in each of {options.rounds} rounds. Wall "
                  "time per connection, medians. The last column is the kernel's measurement of the time in all programs of the exporter, "
                  "including those at context switches, from separate runs.",
                  ["", "ns, no program", "ns, ours", "ours, over no program", "ns in the programs"], rows)


def switches_so_far():
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        if line.startswith("ctxt "):
            return int(line.split()[1])
    raise ValueError("/proc/stat has no line ctxt")


def hackbench(results, options):
    if not shutil.which("hackbench"):
        sys.exit("host_cost.py: no hackbench here: scripts/setup.sh --tests installs it")

    def run():
        before, began = switches_so_far(), time.monotonic()
        subprocess.run([*HACKBENCH, "--loops", str(options.loops)], stdout=subprocess.DEVNULL, check=True)
        return switches_so_far() - before, time.monotonic() - began

    def turn(way):
        with way(options, None, None) as holder:
            switched, seconds = run()
            if not holder:
                return seconds, switched / seconds, 0
            with counted_programs():
                before = in_programs(holder)
                _, counted_seconds = run()
                spent = in_programs(holder) - before
            return seconds, switched / seconds, spent / 1e9 / counted_seconds / os.cpu_count()

    found = in_turns(options, turn)
    times, rates, shares = ({name: [one[at] for one in turns] for name, turns in found.items()} for at in range(3))
    switching = {name: [rate / base for rate, base in zip(rates[name], rates["empty program"])] for name in found}
    rows = []
    for name in found:
        ratios = [seconds / base for seconds, base in zip(times[name], times["empty program"])]
        rows.append([name, f"{statistics.median(times[name]):.2f}", "" if name == "empty program" else figures.ratio_text(ratios),
                     f"{statistics.median(rates[name]):,.0f}", "" if name == "empty program" else figures.ratio_text(switching[name]),
                     "" if name == "no program" else percent(shares[name])])
    results.table("Context switches under hackbench",
                  f"{' '.join(HACKBENCH)} --loops {options.loops}, {options.rounds} rounds; the alternatives take turns. The time it took, its ratio "
                  "to the time with an empty program, and the same for the context switches of the whole machine. The last column, from a separate "
                  "run, is the time in the BPF programs as a share of the time of all CPUs, as measured by the kernel (kernel.bpf_stats_enabled); "
                  "it includes two extra clock reads.",
                  ["", "seconds", "over the empty program", "switches per second", "over the empty program", "in the programs"], rows)
    results.bar("switches per second under hackbench: over an empty program", ">= 0.97x", figures.ratio_text(switching["ours"]),
                statistics.median(switching["ours"]) >= 0.97, f"the runs vary by more: {figures.ratio_text(switching['no program'])} "
                "without any program; the next bar counts the programs' time instead")
    more = [ours - base for ours, base in zip(shares["ours"], shares["empty program"])]
    results.bar("time in the programs under hackbench beyond an empty program, as a share of all CPUs", "<= 3 %", percent(more),
                statistics.median(more) <= 0.03, LIMIT)


def percent(shares):
    return f"{statistics.median(shares):.2%} ({figures.quantile(shares, 0.1):.2%} to {figures.quantile(shares, 0.9):.2%})"


def main():
    parser = figures.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--switches", type=int, default=40_000, help="of each thread in a turn (40000)")
    parser.add_argument("--connections", type=int, default=5000, help="in a turn (5000)")
    parser.add_argument("--loops", type=int, default=1500, help="of hackbench in a turn (1500)")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.switches, options.connections, options.loops = 1, 1000, 100, 20
    if os.geteuid() != 0:
        sys.exit("needs root, to attach")
    results = figures.Results()
    switches(results, options)
    connections(results, options)
    hackbench(results, options)
    results.give(options.json)


if __name__ == "__main__":
    main()
