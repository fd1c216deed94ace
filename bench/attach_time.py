#!/usr/bin/env python3
"""How long the exporter takes to attach to many functions, to detach, and to notice a new library.

Makes a library of so many functions, and copies of it, each a file of its own; maps them in a process;
then, for each way to attach in turn, starts the exporter on them, maps one more copy, and stops it.
Prints medians with the least and the most; it has no opinion. Needs root, cc, and the built exporter:

    bench/attach_time.py [--functions 500] [--copies 10] [--rounds 7] [--language c|c++] [--modes ...]

The kernel detaches perf uprobes one by one, so those are tried on --perf-functions of one copy.
"""
import argparse
import atexit
import json
import os
import platform
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 120  # seconds

# Maps what its lines of input name, and says when it was about to, by the monotonic clock.
MAPPER = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int main(void)
{
	char path[4096];

	while (fgets(path, sizeof(path), stdin)) {
		struct timespec now;

		path[strcspn(path, "\n")] = 0;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (!dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
		fflush(stdout);
	}
	return 0;
}
"""


def build(folder, functions, others, language):
    """The library's functions, and as many others that nobody asks for."""
    suffix = "cpp" if language == "c++" else "c"
    with open(folder / f"library.{suffix}", "w") as source:
        source.write("int bench_next(int);\n")
        for n in range(functions):
            # Two ends each, so that those of C++ are found in code as they are there.
            source.write(f"int bench_wanted_{n}(int a) {{ if (a > {n}) return bench_next(a) + {n};"
                         f" return a * {n + 2}; }}\n")
        for n in range(others):
            source.write(f"int bench_other_{n}(int a) {{ return a + {n}; }}\n")
        source.write("int bench_next(int a) { return a ^ 21; }\n")
    library = folder / "library.so"
    compiler = "c++" if language == "c++" else "cc"
    subprocess.run([compiler, "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-o", library,
                    folder / f"library.{suffix}"], check=True)
    (folder / "mapper.c").write_text(MAPPER)
    subprocess.run(["cc", "-O2", "-o", folder / "mapper", folder / "mapper.c", "-ldl"], check=True)
    return library


def start(command, **options):
    """A program that ends when this one does, however that ends."""
    process = subprocess.Popen(command, **options)
    atexit.register(lambda: process.poll() is None and process.kill())
    return process


class Mapper:
    def __init__(self, folder):
        self.process = start([folder / "mapper"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def map(self, path):
        """When it was about to, in seconds of the monotonic clock."""
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"cannot map {path}")
        return int(answer) / 1e9

    def end(self):
        self.process.kill()
        self.process.wait()


def configuration(folder, mode, language):
    glob = "_Z*bench_wanted_*" if language == "c++" else "bench_wanted_*"
    shipped = "".join(f"    {name}: {{enabled: false}}\n"
                      for name in ("cuda", "cublas", "cudnn", "nccl", "libtorch"))
    path = folder / f"{mode}.yaml"
    path.write_text("cuda: {enabled: false}\nfunctions:\n"
                    f"  attach: {mode}\n  max_functions: 65536\n  groups:\n{shipped}"
                    f"    bench:\n      libraries: [\"libbench_attach_*.so\"]\n"
                    f"      functions: [\"{glob}\"]\n")
    return path


class Exporter:
    def __init__(self, binary, config):
        self.began = time.monotonic()
        self.process = start(
            [binary, f"--config.file={config}", "--web.listen-address=127.0.0.1:0", "--log.format=json"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        os.set_blocking(self.process.stderr.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stderr, selectors.EVENT_READ)
        self.text = b""
        # There is no server before everything is attached: with this line it is ready.
        self.port, self.ready = self.wait_for(lambda line: line.get("msg") == "listening")
        self.port = int(self.port["port"])

    def wait_for(self, is_it):
        """The next such line of the log, and when it came."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            self.selector.select(timeout=1)
            now = time.monotonic()
            self.text += self.process.stderr.read() or b""
            while b"\n" in self.text:
                line, self.text = self.text.split(b"\n", 1)
                if not line.startswith(b"{"):
                    sys.exit(line.decode())  # what it says before it has a log
                line = json.loads(line)
                if is_it(line):
                    return line, now
            if self.process.poll() is not None:
                sys.exit(f"the exporter ended with {self.process.returncode}")
        sys.exit("the exporter does not do what is waited for")

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def attached(self):
        for line in self.get("/metrics").splitlines():
            if line.startswith('gpusnoop_probe_attached_functions{probe="func"}'):
                return int(float(line.split()[-1]))
        return 0

    def stop(self):
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        return time.monotonic() - began


def one_round(binary, folder, library, mode, functions, copies, language):
    """Seconds: until all is attached, until a new copy is, until the exporter has ended."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    mapper = Mapper(folder.parent)
    paths = []
    for n in range(copies + 1):
        paths.append(folder / f"libbench_attach_{n}.so")
        shutil.copyfile(library, paths[-1])
    for path in paths[:-1]:
        mapper.map(path)
    exporter = Exporter(binary, configuration(folder, mode, language))
    exporter.get("/-/ready")
    attached = exporter.attached()
    if attached != functions * copies:
        sys.exit(f"{attached} functions are attached, not {functions * copies}")
    asked = mapper.map(paths[-1])
    _, noticed = exporter.wait_for(
        lambda line: line.get("msg") == "attached" and line.get("library") == paths[-1].name)
    attached = exporter.attached()
    if attached != functions * (copies + 1):
        sys.exit(f"{attached} functions are attached, not {functions * (copies + 1)}")
    stopped = exporter.stop()
    mapper.end()
    shutil.rmtree(folder)
    return exporter.ready - exporter.began, noticed - asked, stopped


def shown(seconds):
    ms = [1000 * s for s in seconds]
    return f"{statistics.median(ms):.0f} ({min(ms):.0f} to {max(ms):.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exporter", default=ROOT / "build/release/gpusnoop_exporter")
    parser.add_argument("--functions", type=int, default=500, help="of each copy (500)")
    parser.add_argument("--others", type=int, default=5000, help="that are not asked for (5000)")
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--language", choices=["c", "c++"], default="c")
    parser.add_argument("--modes", nargs="+", default=["session", "multi", "perf"])
    parser.add_argument("--perf-functions", type=int, default=20)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("this needs root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        libraries = {count: build(folder, count, options.others, options.language).rename(
            folder / f"library_{count}.so") for count in {options.functions, options.perf_functions}}
        sizes = {mode: (options.perf_functions, 1) if mode == "perf"
                 else (options.functions, options.copies) for mode in options.modes}
        times = {mode: [] for mode in options.modes}
        loads = []
        for _ in range(options.rounds):
            for mode, (functions, copies) in sizes.items():
                loads.append(os.getloadavg()[0])
                times[mode].append(one_round(options.exporter, folder, libraries[functions], mode,
                                             functions, copies, options.language))
    print(f"Linux {platform.release()}, {os.cpu_count()} CPUs, load {min(loads):.1f} to {max(loads):.1f}, "
          f"{options.rounds} rounds, {options.language}; ms: median (least to most)\n")
    print("| mode | functions x copies | start to all attached | new copy opened to attached | SIGTERM to exit |")
    print("|---|---|---|---|---|")
    for mode, (functions, copies) in sizes.items():
        columns = [shown(column) for column in zip(*times[mode])]
        print(f"| {mode} | {functions} x {copies} | " + " | ".join(columns) + " |")


if __name__ == "__main__":
    main()
