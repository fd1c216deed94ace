#!/usr/bin/env python3
"""How many of the first calls of a first process are lost, as the exporter has to attach to its libraries first.

A program loads a copy of the stand-in runtime that nobody has used before, waits, and calls cudaMalloc. The exporter's count
is compared with what was called. Once the exporter may attach to copies of the runtime alone; once the driver's library, which
the runtime calls, is on the node before the program starts. Needs root, cc, and the built exporter and stand-ins:

    bench/cold_start.py [--starts 50] [--before EXPORTER] [--quick] [--json FILE]

--before, or the variable BEFORE_EXPORTER: another build of the exporter, which takes turns with this one. If it has no
discovery.preattach, it knows nothing of the driver's library until a program maps it.
"""
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import figures
from exporter import Exporter

DELAYS = (0, 1, 5, 10, 20)  # ms from mapping to the first call
CALLS, APART = 1000, 50  # µs: longer than attaching takes
TRACING = Path("/sys/kernel/tracing")
RUNTIME, DRIVER = "12/libcudart.so.12", "driver/libcuda.so.1"

PROGRAM = r"""
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static long long now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void wait_until(long long until)
{
	struct timespec at = {until / 1000000000, until % 1000000000};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* LIBRARY NAME DELAY_NS CALLS APART_NS */
int main(int argc, char **argv)
{
	int (*allocate)(void **, size_t);
	void *library, *memory;
	long long next;

	prctl(PR_SET_NAME, argv[2]);
	library = dlopen(argv[1], RTLD_NOW);
	if (argc != 6 || !library || !(allocate = (int (*)(void **, size_t))dlsym(library, "cudaMalloc"))) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	next = now() + atoll(argv[3]);
	for (int n = atoi(argv[4]); n > 0; n--) {
		if (next > now())
			wait_until(next);
		if (allocate(&memory, 256))
			return 2;
		next += atoll(argv[5]);
	}
	return 0;
}
"""


def config(binary, driver):
    return ("cuda:\n  libraries: [" + ('"libcuda.so*", ' if driver else "") + '"libcudart.so*"]\n'
            "series: {budget: 100000}\nfunctions: {enabled: false}\npcie: {enabled: false}\n"
            "nvlink: {enabled: false}\nsyscall: {enabled: false}\nfence: {enabled: false}\n"
            + (f'discovery: {{preattach: ["{driver}"]}}\n' if driver and takes_preattach(binary) else ""))


def takes_preattach(binary):
    """Whether it knows the setting."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write("discovery: {preattach: []}\n")
        config.flush()
        return subprocess.run([binary, "check-config", f"--config.file={config.name}"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode == 0


def lost(options, binary, with_driver, delay, folder):
    """Calls lost of each start: every start has files of its own."""
    folders = [folder / str(n) for n in range(options.starts)]
    for each in folders:
        each.mkdir()
        shutil.copy(options.build / "standin" / RUNTIME, each)
        shutil.copy(options.build / "standin" / DRIVER, each)
    missing = []
    with Exporter(binary, folder, config(binary, f"{folder}/*/libcuda.so.1" if with_driver else None)) as exporter:
        for n, each in enumerate(folders):
            name = f"start_{n}"
            subprocess.run([options.program, each / Path(RUNTIME).name, name, str(delay * 1_000_000), str(options.calls),
                            str(APART * 1000)], check=True)
            counted = exporter.total("gpusnoop_cuda_memory_allocations_total", f'comm="{name}"')
            missing.append(options.calls - int(counted))
            time.sleep(options.pause)
    return missing


def kernel_alone(options, folder):
    """Milliseconds that the kernel takes to set one breakpoint in a copy of the runtime which this process has mapped, of each copy."""
    taken = []
    for n in range(options.starts):
        copy = Path(shutil.copy(options.build / "standin" / RUNTIME, folder / f"alone_{n}.so"))
        address = ctypes.cast(ctypes.CDLL(str(copy)).cudaMalloc, ctypes.c_void_p).value
        event = f"gpusnoop_bench/alone_{os.getpid()}_{n}"
        write(TRACING / "uprobe_events", f"p:{event} {copy}:{offset_of(address):#x}")
        switch = TRACING / "events" / event / "enable"
        try:
            time.sleep(options.pause)
            began = time.monotonic()
            write(switch, "1")
            taken.append((time.monotonic() - began) * 1000)
            write(switch, "0")
        finally:
            write(TRACING / "uprobe_events", f"-:{event}")
    return taken


def write(path, text):
    with open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb", buffering=0) as file:
        file.write(text.encode())


def offset_of(address):
    """In the file that is mapped there."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        places, _, offset = line.split()[:3]
        first, last = (int(place, 16) for place in places.split("-"))
        if first <= address < last:
            return address - first + int(offset, 16)
    raise ValueError(f"nothing is mapped at {address:#x}")


def shown(values):
    return f"{statistics.median(values):g} ({min(values)} to {max(values)})"


def measure(options, folder):
    options.program = folder / "program"
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O2", "-o", options.program, folder / "program.c", "-ldl"], check=True)
    exporters = {"this": options.build / "gpusnoop_exporter"}
    if options.before:
        exporters = {"before": options.before} | exporters
    results = figures.Results()
    rows, median = [], {}
    for with_driver in (True, False):
        cells = {name: [] for name in exporters}
        for delay in DELAYS:
            for name, binary in exporters.items():
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    missing = lost(options, binary, with_driver, delay, Path(own))
                cells[name].append(shown(missing))
                median[name, with_driver, delay] = missing
        what = "the driver's library, on the node" if with_driver else "a copy of the runtime alone"
        rows += [[what, name, *values] for name, values in cells.items()]
    results.table(
        "First calls lost",
        f"A program loads a copy of the runtime that no program used before, waits, and calls cudaMalloc {options.calls} times, every {APART} µs. "
        f"The table has the number of calls that the exporter did not count: the median of {options.starts} starts, with minimum and maximum in parentheses. "
        "The driver's library on the node is named in `discovery.preattach`.",
        ["the exporter attaches to", "exporter", *(f"first call after {delay} ms" for delay in DELAYS)], rows)

    alone = kernel_alone(options, folder)

    def bar(what, with_driver, delays, limit):
        starts = [median["this", with_driver, delay] for delay in delays]
        worst = max(statistics.median(values) for values in starts)
        results.bar(what, "0", f"{worst:g}, at most {max(map(max, starts))}", worst == 0, limit)

    bar("first calls lost, the driver's library on the node", True, DELAYS, "")
    bar("first calls lost, a copy of the runtime alone, first call after 5 ms or more", False, [d for d in DELAYS if d >= 5],
        f"floor: the kernel alone needs {statistics.median(alone):.1f} ({min(alone):.1f} to {max(alone):.1f}) ms to set the first breakpoint in such a "
        "copy, because it waits for an RCU grace period (register_for_each_vma() in kernel/events/uprobes.c)")
    results.give(options.json)


def main():
    parser = figures.parser(__doc__)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--before", type=Path, metavar="EXPORTER", default=os.environ.get("BEFORE_EXPORTER"),
                        help="an older build, to compare with (the variable BEFORE_EXPORTER)")
    parser.add_argument("--pause", type=float, default=0.3, metavar="SECONDS", help="between two starts (0.3)")
    options = parser.parse_args()
    options.calls = 100 if options.quick else CALLS
    options.starts = 1 if options.quick else options.starts
    if os.geteuid() != 0:
        sys.exit("needs root, to attach")
    with tempfile.TemporaryDirectory() as folder:
        measure(options, Path(folder))


if __name__ == "__main__":
    main()
