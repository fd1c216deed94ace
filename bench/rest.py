#!/usr/bin/env python3
"""The CPU time that the exporter takes on a node where no CUDA program runs. Needs root:

    bench/rest.py [--seconds 60] [--quick] [--json FILE]
"""
import os
import sys
import tempfile
import time
from pathlib import Path

import figures
from exporter import Exporter

MOST = 0.3  # percent of one core
SETTLING_SECONDS = 10  # what it does at its start


def ran_ns(pid):
    """Of all threads of a process, and of its children, since they began."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text(encoding="utf-8").split()[0])
        total += sum(ran_ns(child) for child in (task / "children").read_text(encoding="utf-8").split())
    return total


def main():
    parser = figures.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    settling = SETTLING_SECONDS
    if options.quick:
        options.seconds, settling = 1, 0
    if os.geteuid() != 0:
        sys.exit("needs root, to load programs")
    # The default configuration, but for what runs beside the tests.
    config = 'discovery: {exclude: ["*/standin/company/*"]}\n'
    with tempfile.TemporaryDirectory() as folder, \
            Exporter(options.build / "gpusnoop_exporter", folder, config, leaves_helper=options.quick) as exporter:
        time.sleep(settling)
        began, before = time.monotonic_ns(), ran_ns(exporter.process.pid)
        time.sleep(options.seconds)
        percent = 100 * (ran_ns(exporter.process.pid) - before) / (time.monotonic_ns() - began)
    results = figures.Results()
    results.table("CPU time of the exporter at rest",
                  f"With the default configuration, where no CUDA program runs and nobody scrapes, with its child processes: {options.seconds:g} s.",
                  ["configuration", "% of one core"], [["default", f"{percent:.2f}"]])
    results.bar("CPU time of the exporter at rest", f"<= {MOST} % of one core", f"{percent:.2f} %", percent <= MOST,
                "each second, the probes look for processes that have ended and read their tables")
    results.give(options.json)


if __name__ == "__main__":
    main()
