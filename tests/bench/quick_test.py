#!/usr/bin/env python3
"""The benchmarks still run: bench/run.py --quick, and what it must have found. No figure is looked at.

    quick_test.py BUILD
"""
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # leave the source tree as it is
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import run  # noqa: E402

# That others trace, too.
ENTRY = "nop5" if platform.machine() == "x86_64" else "int3"
# table -> what its rows begin with, at least.
ROWS = {
    "Training step throughput under tracing": [f"{bound}-bound | {rate}" for bound in ("GPU", "launch")
                                                for rate in ("5,000", "20,000", "50,000", "100,000", "150,000")],
    "Reported and actual overhead": ["5,000", "150,000"],
    "Training step throughput by default": ["150,000"],
    "A bystander's launch while neighbours change levels": ["session | resting", "session | counted", "session | changing"],
    "CPU time of the exporter at rest": ["default"],
    "Cost of a traced call, int3 entry": ["cudaMemcpy | untraced", "cudaMemcpy | empty, session", "cudaMemcpy | cuda, session",
                                          "cudaMemcpy | functions, session", "cuLaunchKernel | cuda, session"],
    f"Cost of a traced call, {ENTRY} entry": ["cudaMemcpy | untraced", "cudaMemcpy | empty, session", "cudaMemcpy | empty, multi pair",
                                              "cudaMemcpy | empty, perf pair", "cudaMemcpy | cuda, session", "cudaMemcpy | functions, session",
                                              "cudaMemcpy | bpftrace", "cudaMemcpy | funclatency",
                                              "cudaMalloc and cudaFree, driver called inside | bpftrace, live allocations"],
    f"Added cost relative to other tools, {ENTRY} entry": ["cudaMemcpy | bpftrace", "cudaMemcpy | funclatency"],
    "Cost of a system call": ["no probe", "empty programs", "process not traced", "traced"],
    "BPF programs that are off by default": ["a softirq begins", "a block request ends", "a sample of the continuous profile"],
    "Consumer: CPU time per event": ["1", "8", "64", "exponent"],
    "Consumer: by load": ["none", "10000", "100000", "1000000", "exponent"],
    "Consumer: events per second without loss": ["1000000"],  # more, if that lost none
    "Start, attach, detach": ["session", "multi", "perf"],
    "Attach time by number of functions": ["2", "20", "200", "exponent"],
    "Discovery time by number of processes": ["1", "10", "100", "exponent"],
    "NVIDIA's libraries": [""],
    "First calls lost": ["the driver's library, on the node | this", "a copy of the runtime alone | this"],
}
BARS = ["launch-bound loop in the default configuration", "gpusnoop_overhead_seconds_total over actual overhead of the launch-bound loop, exporter, session", "over empty, session", "launches counted, driver's entry", "over bpftrace, latency histograms", "over funclatency", "over bpftrace, live allocations",
        "consumer at 1M events/s, 8 traced processes", "consumer at 1M events/s, 64 traced processes",
        "events lost at 1M events/s", "events lost at 4M events/s", "start to all attached", "new library copy opened to attached",
        "SIGTERM to exit", "resident memory", "kernel memory of BPF maps",
        "a bystander's launch while", "CPU time of the exporter at rest",
        "first calls lost, the driver's library on the node", "first calls lost, a copy of the runtime alone"]


def tables_of(page):
    """title -> rows, without their first bar"""
    tables, title = {}, None
    for line in page.splitlines():
        if line.startswith("## "):
            title = line[3:]
            tables[title] = []
        elif title and line.startswith("| ") and not line.startswith("| ---"):
            tables[title].append(line[2:])
    return {title: rows[1:] for title, rows in tables.items()}


def problems(page):
    tables = tables_of(page)
    for title, beginnings in ROWS.items():
        for beginning in beginnings:
            if not any(row.startswith(beginning) for row in tables.get(title, [])):
                yield f"'{title}' has no row that begins with '{beginning}'"
    for bar in BARS:
        if not any(bar in row for row in tables.get("Appendix: bars", [])):
            yield f"there is no bar '{bar}'"
    for name in run.BENCHMARKS:
        if f" (`{name}`)\n" not in page:
            yield f"there is no table of {name}"
    yield from re.findall(r"^`\w+` is missing here: .*", page, re.M)


def main():
    if os.geteuid() != 0:
        print("quick_test.py: the benchmarks have to be run as root")
        return 1 if "CI" in os.environ else 4
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "benchmarks.md")
        code = subprocess.run([sys.executable, str(ROOT / "bench/run.py"), "--no-build", "--quick", "--build", sys.argv[1],
                               "--output", str(output)], check=False).returncode
        found = list(problems(output.read_text(encoding="utf-8"))) if output.exists() else ["nothing is written"]
    print("\n".join(found))
    return 1 if code or found else 0


if __name__ == "__main__":
    sys.exit(main())
