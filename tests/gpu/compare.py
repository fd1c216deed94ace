#!/usr/bin/env python3
"""What a program counted of itself against the page of the exporter.

    compare.py PAGE TOTALS [--section running|ended] [--patience SECONDS]
    compare.py PAGE --account

PAGE is the page's address, or a file with it. TOTALS is the JSON that calls.cu prints: in each section
rows [metric, labels, value], where value is the sum over the samples that have all the labels. The page
is read again until every row holds or the patience is over. --account checks that the probes lost
nothing, and that their accounts balance. Exit code: 0 all rows hold, 1 not, 2 wrong usage.
"""

import argparse
import json
import re
import sys
import time
import urllib.request

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: -?\d+)?")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?')
CALL_PROBES = ("cuda", "functions", "torch")
ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


def unescape(value):
    return re.sub(r'\\[n"\\]', lambda found: ESCAPES[found[0]], value)


class Page:
    """The samples of one scrape."""

    def __init__(self, text):
        self.samples = []
        for line in text.split("\n"):
            if not line or line.startswith("#"):
                continue
            sample = SAMPLE.fullmatch(line)
            if not sample:
                raise ValueError(f"not a sample: {line}")
            name, labels, value = sample.groups()
            labels = labels or ""
            if LABEL.sub("", labels):
                raise ValueError(f"not labels: {line}")
            pairs = {label: unescape(of) for label, of in LABEL.findall(labels)}
            self.samples.append((name, pairs, float(value)))

    @classmethod
    def read(cls, source):
        if source.startswith("http://"):
            with urllib.request.urlopen(source, timeout=10) as answer:
                return cls(answer.read().decode())
        with open(source, encoding="utf-8") as file:
            return cls(file.read())

    def sum(self, metric, labels):
        return sum(value for name, have, value in self.samples
                   if name == metric and labels.items() <= have.items())


def short(metric, labels):
    shown = ", ".join(f"{name}={value}" for name, value in labels.items() if name not in ("comm", "pid"))
    return metric.removeprefix("gpusnoop_") + (f"{{{shown}}}" if shown else "")


def number(value):
    return str(int(value)) if value == int(value) else str(value)


def print_table(program, rows):
    """Rows of (what, own, page). Returns whether each own is what the page says."""
    width = max([len(what) for what, _, _ in rows], default=4)
    print(f"{'program':<16} {'what':<{width}} {'own':>16} {'page':>16} ok")
    for what, own, page in rows:
        print(f"{program:<16} {what:<{width}} {number(own):>16} {number(page):>16} {'yes' if own == page else 'NO'}")
    sys.stdout.flush()
    return all(own == page for _, own, page in rows)


def rows_of(page, expected):
    return [(short(metric, labels), own, page.sum(metric, labels)) for metric, labels, own in expected]


def poll(source, rows_from, patience):
    """The rows of the first page on which all of them hold, or of the last."""
    end = time.monotonic() + patience
    while True:
        rows = rows_from(Page.read(source))
        if all(own == page for _, own, page in rows) or time.monotonic() >= end:
            return rows
        time.sleep(0.1)


def account(page):
    if not page.sum("gpusnoop_probe_entries_total", {}):
        raise ValueError("no probe has seen a call")

    def per_probe(name):
        return page.sum(f"gpusnoop_probe_{name}", {})

    def calls_in_flight():
        # Those of probes of the host are intervals, of which each waiting thread has one.
        return sum(page.sum("gpusnoop_probe_in_flight_calls", {"probe": probe}) for probe in CALL_PROBES)

    accounted = (per_probe("events_total") + per_probe("in_flight_calls") + per_probe("stale_calls_total")
                 + per_probe("events_lost_total"))
    return [
        ("events lost", 0, per_probe("events_lost_total")),
        ("unmatched returns", 0, per_probe("unmatched_returns_total")),
        ("calls in flight", 0, calls_in_flight()),
        ("entries = events + in flight + stale + lost", per_probe("entries_total"), accounted),
    ]


def main():
    parser = argparse.ArgumentParser(description="Compares a program's own count with the page.")
    parser.add_argument("page")
    parser.add_argument("totals", nargs="?")
    parser.add_argument("--section", choices=("running", "ended"), default="running")
    parser.add_argument("--account", action="store_true")
    parser.add_argument("--patience", type=float, default=0)
    options = parser.parse_args()
    if options.account == (options.totals is not None):
        parser.error("give either TOTALS or --account")
    if options.account:
        return 0 if print_table("(all)", poll(options.page, account, options.patience)) else 1
    with open(options.totals, encoding="utf-8") as file:
        totals = json.load(file)
    if not totals[options.section]:
        parser.error(f"{options.totals} expects nothing")
    rows = poll(options.page, lambda page: rows_of(page, totals[options.section]), options.patience)
    return 0 if print_table(totals["program"], rows) else 1


if __name__ == "__main__":
    sys.exit(main())
