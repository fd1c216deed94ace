#!/usr/bin/env python3
"""What one run takes of each program that is attached only if somebody wants it: of block requests, of interrupts, of virtual
machines, and of the continuous profile. By the kernel's count of the time in programs (sysctl kernel.bpf_stats_enabled), which has two more readings of
the clock in it, as an empty program beside them shows.

Processes that the configuration names, one for each CPU, and the same processes that it does not name, send themselves datagrams,
read this machine's disk past the page cache, run virtual machines, and compute, in Python. Needs root, and what `cmake --build --preset release --target
bench` builds:

    bench/host_programs.py [--rounds 11] [--seconds 2] [--quick] [--json FILE]
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import figures
from dialogue import Dialogue
from exporter import Exporter
from host_cost import Switches, counted_programs

CONFIG = """
targets: {{gpu_processes: false, pids: {pids}}}
cuda: {{enabled: false}}
functions: {{enabled: false}}
host:
  block: {{enabled: true}}
  irq: {{enabled: true}}
  kvm: {{enabled: true}}
profile: {{continuous_frequency: 199}}
"""
# What a process does for so many seconds, when it is told to: it answers when it is done.
LOAD = """
import mmap, os, socket, subprocess, sys, time
def datagrams(until):
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(("127.0.0.1", 0))
    own.connect(own.getsockname())
    while time.monotonic() < until:
        own.send(b"x")
        own.recv(1)
def reads(until):
    file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
    size = os.fstat(file).st_size // 4096
    page = mmap.mmap(-1, 4096)
    at = 0
    while time.monotonic() < until:
        os.preadv(file, [page], at % size * 4096)
        at += 1
def exits(until):
    while time.monotonic() < until and subprocess.run([sys.argv[2], "io", "20000"], stderr=subprocess.DEVNULL).returncode == 0:
        pass
def burns(until):
    while time.monotonic() < until:
        sum(range(1000))
for line in sys.stdin:
    what, seconds = line.split()
    globals()[what](time.monotonic() + float(seconds))
    print("done", flush=True)
"""
# Program -> (what runs it, the load that meets it, the bar over the empty one for others)
PROGRAMS = {
    "irq_soft_in": ("a softirq begins", "datagrams", 1.35),
    "irq_soft_out": ("a softirq ends", "datagrams", 1.35),
    "irq_hard_in": ("a device's interrupt begins", "reads", 1.35),
    "irq_hard_out": ("a device's interrupt ends", "reads", 1.35),
    "block_insert": ("a block request gets to the scheduler", "reads", 2),
    "block_issue": ("a block request gets to the driver", "reads", 2),
    "block_complete": ("a block request ends", "reads", 2),
    "kvm_returns": ("a virtual CPU returns to its process", "exits", 2),
    "prof_tick": ("a sample of the continuous profile", "burns", None),
}
LIMIT = "it checks whether the thread's process is traced, which an empty program does not"
# The same code where events are more frequent, so that what it reads is in the caches, as the empty program's is.
SAME_CODE = {"irq_hard_in": "irq_soft_in", "irq_hard_out": "irq_soft_out"}


def runs_of(pid):
    """Program -> (nanoseconds, runs) of all that the process has loaded, while the kernel counts them."""
    shown = json.loads(subprocess.run(["bpftool", "prog", "show", "--json"], capture_output=True, check=True).stdout)
    names = {str(one["id"]): one["name"] for one in shown if "name" in one}
    found = {}
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines = file.read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            continue
        of = dict(line.split(":", 1) for line in lines if ":" in line)
        if "run_cnt" in of and of["prog_id"].strip() in names:
            found[names[of["prog_id"].strip()]] = (int(of["run_time_ns"]), int(of["run_cnt"]))
    return found


def each(before, after):
    """Program -> nanoseconds of one run, of those that ran."""
    return {name: (spent - before[name][0]) / (times - before[name][1]) for name, (spent, times) in after.items()
            if name in before and times > before[name][1]}


def measure(options, processes, exporter, holder):
    """Load -> program -> nanoseconds of one run; the empty program is "empty"."""
    found = {}
    for load in sorted({load for _, load, _ in PROGRAMS.values()}):
        with counted_programs():
            before, before_empty = runs_of(exporter), runs_of(holder)
            with ThreadPoolExecutor() as all_at_once:
                list(all_at_once.map(lambda process: process.say(f"{load} {options.seconds}"), processes))
            found[load] = each(before, runs_of(exporter))
            empty = each(before_empty, runs_of(holder))
        found[load]["empty"] = statistics.mean(empty.values())
    return found


def main():
    parser = figures.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=2, help="of each load in a round (2)")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.3
    if os.geteuid() != 0:
        sys.exit("needs root, to attach")
    found = {"others": [], "followed": []}
    binary = options.build / "gpusnoop_exporter"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as programs:
        groups = {of: [programs.enter_context(Dialogue(sys.executable, "-c", LOAD, binary, options.build / "standin/virtual")) for _ in range(os.cpu_count())]
                  for of in found}
        config = CONFIG.format(pids=[process.process.pid for process in groups["followed"]])
        with Exporter(binary, folder, config) as exporter, Switches(options) as holder:
            holder.say("attach")
            for number in range(options.rounds):
                for of in sorted(groups, reverse=number % 2 == 1):
                    found[of].append(measure(options, groups[of], exporter.process.pid, holder.process.pid))

    results = figures.Results()
    rows = []
    for program, (what, load, most) in PROGRAMS.items():
        times = {of: [turn[load][program] for turn in turns if program in turn[load]] for of, turns in found.items()}
        ratios = {of: [turn[load][program] / turn[load]["empty"] for turn in turns if program in turn[load]]
                  for of, turns in found.items()}
        if not times["others"] or not times["followed"]:
            rows.append([what, "did not run here", "", "", ""])
            continue
        rows.append([what] + [cell for of in found for cell in
                              (f"{statistics.median(times[of]):.0f}", figures.ratio_text(ratios[of]))])
        if most:
            ratio = statistics.median(ratios["others"])
            limit = LIMIT
            if program in SAME_CODE:
                same, its_load, _ = PROGRAMS[SAME_CODE[program]]
                often = [turn[its_load][SAME_CODE[program]] / turn[its_load]["empty"] for turn in found["others"]]
                limit += (f"; the floor is reading data that is not cached because the events are rare: the same code when {same}, which is "
                          f"more frequent, is at {figures.ratio_text(often)}")
            results.bar(f"time in the program when {what}, in an untraced process: over an empty one", f"<= {most}x",
                        figures.ratio_text(ratios["others"]), ratio <= most, limit)
    results.table("BPF programs that are off by default",
                  f"{os.cpu_count()} untraced processes, and as many traced ones, send datagrams to themselves, read a disk, run virtual machines, or "
                  f"compute, for {options.seconds:g} s each in each of {options.rounds} rounds. Nanoseconds per run of a program as measured by the kernel, "
                  "including two clock reads, medians, and the ratio to a run of an empty program at context switches. The traced processes run "
                  "Python, so samples include its functions.",
                  ["", "ns, untraced", "over an empty program", "ns, traced", "over an empty program"], rows)
    results.give(options.json)


if __name__ == "__main__":
    main()
