#!/usr/bin/env python3
"""What the hot paths of user space cost, in nanoseconds and allocations: build/release/bench/micro, in turns.

cmake --build --preset release --target bench
bench/micro.py               two minutes; single ones: build/release/bench/micro --benchmark_filter=REGEX
bench/micro.py --quick
"""

import collections
import json
import statistics
import subprocess
import sys

import figures

OURS, THEIRS = "page_text", "page_text_by_prometheus_cpp"


def measured(binary, repetitions, seconds):
    """name -> of each repetition: nanoseconds an item, and allocations"""
    output = subprocess.run(
        [binary, "--benchmark_format=json", f"--benchmark_repetitions={repetitions}", f"--benchmark_min_time={seconds}",
         "--benchmark_enable_random_interleaving=true"], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = collections.defaultdict(list)
    for one in json.loads(output)["benchmarks"]:
        if one["run_type"] == "iteration":
            found[one["run_name"]].append((one["repetition_index"], 1e9 / one["items_per_second"], one["allocations"]))
    return {name: [figure[1:] for figure in sorted(figures_)] for name, figures_ in found.items()}


def main():
    options = figures.parser(__doc__).parse_args()
    binary = options.build / "bench/micro"
    if not binary.exists():
        print(f"micro.py: build the target bench first (Debian's libbenchmark-dev is needed): there is no {binary}", file=sys.stderr)
        return 1
    found = measured(binary, *((2, 0.005) if options.quick else (11, 0.2)))
    rows = []
    for name, repetitions in found.items():
        times = [time for time, _ in repetitions]
        rows.append([f"`{name}`", f"{statistics.median(times):,.1f}", f"{figures.quantile(times, 0.1):,.1f} to {figures.quantile(times, 0.9):,.1f}",
                     f"{statistics.median(count for _, count in repetitions):.2f}"])
    ratios = [ours[0] / theirs[0] for ours, theirs in zip(found[OURS], found[THEIRS])]
    rows.append([f"`{OURS}` over `{THEIRS}`", figures.ratio_text(ratios), "", ""])
    results = figures.Results()
    results.table(
        "Hot paths in user space",
        "Google Benchmark, one thread, all repetitions in random order. CPU time per record, lookup or string, or for a page (of 10,000 series) per sample: "
        "median, 10th and 90th percentile. An allocation is a call of operator new.",
        ["path", "ns", "spread", "allocations"], rows)
    results.give(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
