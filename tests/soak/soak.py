#!/usr/bin/env python3
"""Runs the exporter for long, under load, and says what became of it.

Programs of the stand-in libraries call at a steady rate, one of them captures streams and runs graphs, while others start
and end. Every ten seconds the exporter's memory, descriptors and CPU time are read, its page is scraped, and a program
hangs in 64 calls, which the page must show; every other one ends inside of them. At the end every total must be what the
libraries counted, to the last byte, and every call that was entered must be accounted for. Run it as root, on a machine
where nothing else is traced under the name "soak":

    tests/soak/soak.py --minutes 20 --rate 100000

Prints a table for docs/reliability.md. Exit code 1: a total is wrong, events were lost, or descriptors grew.
"""

import argparse
import collections
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

COMM = "soak"
PORT = 19436
SAMPLE_SECONDS = 10
Totals = collections.Counter


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--rate", type=int, default=100_000, help="CUDA calls a second, of all steady programs")
    parser.add_argument("--programs", type=int, default=4, help="steady programs")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between two short programs")
    return parser.parse_args()


class Truth:
    """What the libraries counted, of all programs that were started here."""

    LINES = {
        re.compile(r" memory (\w+): (\d+) allocations of (\d+) bytes \(and (\d+) empty\), (\d+) frees of (\d+) bytes"): "memory",
        re.compile(r" (h2h|h2d|d2h|d2d) (sync|async|graph): (\d+) of (\d+) bytes"): "copy",
        re.compile(r"^  launches (\d+), by graphs (\d+) "): "launch",
        re.compile(r" captured (\w+): (\d+)$"): "captured",
        re.compile(r": (\d+) graph launches, "): "graph",
    }
    CALLS = ("memory_allocations_total", "memory_frees_total", "memcpy_total", "kernel_launches_total")

    def __init__(self, printer, folder):
        self.printer = printer
        self.folder = folder
        self.totals = Totals()
        self.programs = 0

    def environment(self):
        own = tempfile.mkdtemp(dir=self.folder)
        return own, dict(os.environ, STANDIN_TRUTH_DIR=own)

    def take(self, own):
        text = subprocess.run([self.printer, own], check=True, capture_output=True, text=True).stdout
        shutil.rmtree(own)
        self.programs += 1
        for line in text.splitlines():
            for pattern, kind in self.LINES.items():
                if match := pattern.search(line):
                    self.add(kind, match.groups())

    def calls(self):
        """How many are in the totals. The launch of a graph is one; what it runs is none."""
        return sum(value for (name, of), value in self.totals.items() if name in self.CALLS and not of.endswith("graph")
                   or name in ("graph_captured_total", "graph_launches_total"))

    def add(self, kind, found):
        if kind == "memory":
            name, count, size, empty, *freed = found
            numbers = (int(count) + int(empty), size, *freed)  # one of 0 bytes succeeds, and has nothing to free
            names = ("allocations_total", "allocated_bytes_total", "frees_total", "freed_bytes_total")
            for family, number in zip(names, numbers):
                self.totals[f"memory_{family}", name] += int(number)
        elif kind == "copy":
            copy, mode, count, size = found
            self.totals["memcpy_total", f"{copy} {mode}"] += int(count)
            self.totals["memcpy_bytes_total", f"{copy} {mode}"] += int(size)
        elif kind == "captured":
            self.totals["graph_captured_total", found[0]] += int(found[1])
        elif kind == "graph":
            self.totals["graph_launches_total", "known"] += int(found[0])
        else:
            for via, number in zip(("stream", "graph"), found):
                self.totals["kernel_launches_total", via] += int(number)


class Exporter:
    def __init__(self, binary, folder):
        self.log = open(folder / "exporter.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [binary, f"--web.listen-address=127.0.0.1:{PORT}", f"--config.file={self.config(folder)}"],
            stderr=self.log, stdout=self.log)
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/-/ready", timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"the exporter did not start: see {self.log.name}")
                time.sleep(0.1)

    @staticmethod
    def config(folder):
        path = folder / "config.yaml"
        path.write_text("functions: {enabled: false}\nin_flight: {min_age: 10ms}\n", encoding="utf-8")
        return path

    def page(self):
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return text, time.monotonic() - began

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        return code, time.monotonic() - began


SAMPLE = re.compile(r"^gpusnoop_(\w+?)(?:\{(.*)\})? ([^ ]+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def samples(page):
    for line in page.splitlines():
        if match := SAMPLE.match(line):
            yield match.group(1), dict(LABEL.findall(match.group(2) or "")), float(match.group(3))


def counted(page):
    totals = Totals()
    for name, labels, value in samples(page):
        if labels.get("comm") != COMM:
            continue
        name = name.removeprefix("cuda_")
        if name.startswith("memory_") and name.endswith("_total") and "memory_kind" in labels:
            totals[name, labels["memory_kind"]] += int(value)
        elif name in ("memcpy_total", "memcpy_bytes_total"):
            totals[name, f'{labels["direction"]} {labels["mode"]}'] += int(value)
        elif name == "kernel_launches_total":
            totals[name, labels["via"]] += int(value)
        elif name == "graph_captured_total":
            totals[name, labels["operation"]] += int(value)
        elif name == "graph_launches_total":
            totals[name, labels["content"]] += int(value)
    return totals


def lost(page):
    return int(sum(value for name, labels, value in samples(page)
                   if name == "probe_events_lost_total" and labels["probe"] == "cuda"))


def hold_library(options, exporter):
    """A program that has the libraries open, so that what comes next meets probes at its first call."""
    holder = subprocess.Popen([options.build / "standin/workload", "--iterations", "1", "--hold", "--name", "holder"],
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not any(name == "probe_attached_functions" and labels["probe"] == "cuda" and value > 0
                  for name, labels, value in samples(exporter.page()[0])):
        if time.monotonic() > deadline:
            sys.exit("the exporter attached to nothing")
        time.sleep(0.2)
    time.sleep(2)  # the driver's library comes a moment after the runtime's
    return holder


class Hangs:
    """Programs that hang in calls, one after the other."""

    def __init__(self, options, exporter):
        self.command = [options.build / "standin/hangs", "--threads", "64", "--name", "hangs"]
        self.exporter = exporter
        self.programs = 0
        self.calls = 0
        self.wrong = []

    def one(self):
        with subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True) as process:
            lines = []
            while not lines or lines[-1] != "hanging":
                lines.append(process.stdout.readline().rstrip("\n"))
                if process.poll() is not None:
                    sys.exit(f"the program that hangs ended: {lines}")
            expected = sum(line.startswith("hang cu") for line in lines)
            shown = self.shown(process.pid, expected)
            if shown != expected:
                self.wrong.append(f"{shown} of {expected} hanging calls on the page")
            if self.programs % 2 == 0:
                process.send_signal(signal.SIGUSR1)  # the calls return
                process.stdout.readline()
            process.terminate()
        self.programs += 1
        self.calls += expected

    def shown(self, pid, expected):
        deadline = time.monotonic() + 5
        while True:
            page, _ = self.exporter.page()
            shown = int(sum(value for name, labels, value in samples(page)
                            if name == "calls_in_flight" and labels["pid"] == str(pid)))
            if shown == expected or time.monotonic() > deadline:
                return shown
            time.sleep(0.05)


# Reasons of losses that are no calls that were entered; docs/metrics.md has the account.
NO_ENTRIES = ("undecodable", "forgotten", "skipped")


def unaccounted(page):
    """Calls of the CUDA probe that were entered, and are in no part of the account."""
    of_cuda = Totals()
    for name, labels, value in samples(page):
        if labels.get("probe") == "cuda" and labels.get("reason") not in NO_ENTRIES:
            of_cuda[name] += int(value)
    return of_cuda["probe_entries_total"] - sum(of_cuda[name] for name in (
        "probe_events_total", "probe_in_flight_calls", "probe_stale_calls_total", "probe_events_lost_total"))


def run_load(options, truth, exporter, rows, hangs):
    workload = options.build / "standin/workload"
    name = ["--name", COMM]
    seconds = options.minutes * 60
    steady = []
    for _ in range(options.programs):
        own, environment = truth.environment()
        command = [workload, "--seconds", str(int(seconds)), "--rate", str(options.rate // options.programs),
                   "--failures", *name]
        steady.append((own, subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)))
    own, environment = truth.environment()
    command = [options.build / "standin/graphs", "mixed", "--seconds", str(int(seconds)), "--threads", "2", "--rate",
               str(options.rate // options.programs), *name]
    steady.append((own, subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)))
    began = time.monotonic()
    sample_at = began
    while any(process.poll() is None for _, process in steady):
        own, environment = truth.environment()
        subprocess.run([workload, "--iterations", "20", "--threads", "2", "--failures", *name], env=environment,
                       stdout=subprocess.DEVNULL, check=True)
        truth.take(own)
        if time.monotonic() >= sample_at:
            sample_at += SAMPLE_SECONDS
            _, scrape = exporter.page()
            rows.append((time.monotonic() - began, exporter.resident_bytes(), exporter.descriptors(),
                         exporter.cpu_seconds(), scrape))
            hangs.one()
        time.sleep(options.pause)
    for own, process in steady:
        if process.wait() != 0:
            sys.exit(f"the load failed: {process.args}")
        truth.take(own)
    return time.monotonic() - began


def settled(exporter, truth):
    """The page, once it has all; what is wrong then stays wrong."""
    deadline = time.monotonic() + 20
    while True:
        page, _ = exporter.page()
        totals = counted(page)
        wrong = {key: (totals[key], value) for key, value in truth.totals.items()
                 if value != totals[key]}
        if missing := unaccounted(page):
            wrong["calls", "entered"] = (missing, 0)
        if not wrong or time.monotonic() > deadline:
            return page, wrong
        time.sleep(0.5)


def growth_per_hour(rows):
    """Bytes: the slope of a line through the second half."""
    half = rows[len(rows) // 2:]
    if len(half) < 3:
        return 0.0
    return statistics.linear_regression([row[0] for row in half], [row[1] for row in half]).slope * 3600


def main():
    options = arguments()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpusnoop-soak-"))
    truth = Truth(options.build / "standin/truth_print", folder)
    exporter = Exporter(options.build / "gpusnoop_exporter", folder)
    rows = []
    hangs = Hangs(options, exporter)
    holder = hold_library(options, exporter)
    try:
        wall = run_load(options, truth, exporter, rows, hangs)
        page, wrong = settled(exporter, truth)
        cpu, events = exporter.cpu_seconds(), truth.calls()
        first, last = rows[0], rows[-1]
        code, stop = exporter.stop()
    finally:
        exporter.process.kill()
        holder.kill()
    steady_descriptors = [row[2] for row in rows[len(rows) // 4:]]
    grew = max(steady_descriptors[len(steady_descriptors) // 2:]) > max(steady_descriptors[:len(steady_descriptors) // 2]) + 4
    print(f"| minutes | {wall / 60:.1f} |\n| programs that started and ended | {truth.programs} |")
    print(f"| events | {events:,}, {events / wall:,.0f} a second |\n| events lost | {lost(page)} |")
    print(f"| totals that differ | {len(wrong)} of {len(truth.totals) + 1} |")
    print(f"| programs that hung, their calls | {hangs.programs}, {hangs.calls} |")
    print(f"| programs of which calls were not shown, or too many | {len(hangs.wrong)} |")
    print(f"| resident memory, MiB | {first[1] / 2**20:.1f} at first, {last[1] / 2**20:.1f} at last, "
          f"at most {max(row[1] for row in rows) / 2**20:.1f} |")
    print(f"| its slope in the second half, MiB an hour | {growth_per_hour(rows) / 2**20:.2f} |")
    print(f"| descriptors | {first[2]} at first, {last[2]} at last, at most {max(row[2] for row in rows)} |")
    print(f"| CPU | {cpu:.0f} s, {cpu / wall * 100:.1f} % of one core, {cpu / events * 1e9:.0f} ns an event |")
    scrapes = sorted(row[4] for row in rows)
    print(f"| scrapes, ms | median {statistics.median(scrapes) * 1e3:.1f}, at most {scrapes[-1] * 1e3:.1f} |")
    print(f"| end by SIGTERM | exit code {code} after {stop:.2f} s |")
    for key, (found, true) in sorted(wrong.items()):
        print(f"{' '.join(key)}: {found} on the page, {true} in truth", file=sys.stderr)
    for line in hangs.wrong:
        print(line, file=sys.stderr)
    if grew:
        print("descriptors grew", file=sys.stderr)
    failed = bool(wrong) or bool(hangs.wrong) or grew or lost(page) != 0 or code != 0
    if not failed:
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
