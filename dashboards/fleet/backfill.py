#!/usr/bin/env python3
"""Writes the fleet of generate.py into the folder of a Prometheus, as blocks, with the recording rules and ALERTS as
they would have been. Needs promtool and prometheus, which `scripts/setup.sh --tests` unpacks.

backfill.py --end 1700000000 FOLDER       then: prometheus --storage.tsdb.path=FOLDER --storage.tsdb.retention.time=100y
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

# pylint: disable=wrong-import-position
from fleet import past
from fleet.generate import Fleet
from fleet.server import Server

TOOLS = HERE.parents[1] / ".deps/tools/usr/bin"


class Backfill:
    def __init__(self, tools, folder):
        self.tools, self.folder = pathlib.Path(tools).absolute(), pathlib.Path(folder).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)

    def promtool(self, *arguments, cwd=None):
        done = subprocess.run([self.tools / "promtool", "tsdb", "create-blocks-from", *arguments], text=True, cwd=cwd,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        # It says with code 0 that a rule could not be evaluated.
        if done.returncode != 0 or "err=" in done.stdout:
            raise RuntimeError(f"promtool {arguments[0]}: {done.stdout}")

    def samples(self, fleet):
        """An hour at a time: each is a file of its own, which promtool reads twice."""
        clock = fleet.clock
        hour = 3600 // clock.step
        edges = [0, *range((-clock.start % 3600) // clock.step or hour, clock.count, hour), clock.count]
        for first, last in zip(edges, edges[1:]):
            with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".om") as file:
                fleet.write(file, first, last)
                file.flush()
                self.promtool("openmetrics", "--quiet", file.name, str(self.folder))

    def rules(self, start, end, every):
        """A level begins a minute after the one that it reads: its first series are not those of a Prometheus that lacks
        what it reads. promtool evaluates at seconds that the file's name decides."""
        for number, level in enumerate(past.levels(every)):
            with tempfile.TemporaryDirectory() as folder, Server(self.tools, self.folder) as source:
                (pathlib.Path(folder) / "rules.json").write_text(past.rule_file(level), encoding="utf-8")
                self.promtool("rules", "--quiet", f"--url={source.address}", f"--start={start + 60 * number}",
                              f"--end={end}", "--eval-interval=60s", f"--output-dir={self.folder}", "rules.json",
                              cwd=folder)

    def alerts(self, start, end, every):
        with Server(self.tools, self.folder) as source:
            lines = list(past.alerts(source, every, start, end))
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".om") as file:
            file.write("".join(lines) + "# EOF\n")
            file.flush()
            if lines:
                self.promtool("openmetrics", "--quiet", file.name, str(self.folder))

    def all(self, fleet):
        start, end = fleet.clock.start, fleet.clock.end
        every = past.rules()
        for name, step in (("samples", lambda: self.samples(fleet)),
                           ("recording rules", lambda: self.rules(start, end, every)),
                           ("alerts", lambda: self.alerts(start, end, every))):
            began = time.monotonic()
            step()
            print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--end", type=int, required=True, metavar="SECONDS", help="of the last sample, since 1970")
    parser.add_argument("--hours", type=float, default=6)
    parser.add_argument("--step", type=int, default=30, help="seconds between scrapes")
    parser.add_argument("--clusters", type=int, choices=(1, 2), default=1, help="with the same names of nodes in each")
    parser.add_argument("--tools", default=TOOLS, help="the folder of promtool and prometheus")
    arguments = parser.parse_args()
    fleet = Fleet(arguments.end, arguments.hours, arguments.step, arguments.clusters)
    print(f"{fleet.size()} series, {fleet.clock.count} scrapes", file=sys.stderr)
    Backfill(arguments.tools, arguments.folder).all(fleet)


if __name__ == "__main__":
    main()
