#!/usr/bin/env python3
"""How long the exporter takes to attach to many functions, to detach, and to notice a new library.

Makes a library of so many functions, and copies of it, each a file of its own; maps them in a process;
then, for each way to attach in turn, starts the exporter on them, maps one more copy, and stops it. The
same with 10 and 100 times the functions, and with 10 and 100 times the processes, and with NVIDIA's
libraries where they are installed. Needs root, cc, and the built exporter:

    bench/attach_time.py [--rounds 7] [--language c|c++] [--modes ...] [--quick] [--json FILE]

The kernel detaches perf uprobes one by one, so those are tried on --perf-functions of one copy.
"""
import argparse
import atexit
import glob
import json
import os
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from pathlib import Path

from exporter import wait_for_helper
from fit import exponent_text

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 120  # seconds
GROWTH = (1, 10, 100)
COLUMNS = ["start to all attached, ms", "new copy opened to attached, ms", "SIGTERM to exit, ms"]
# NVIDIA's libraries and their folders: of the toolkit, of Debian, and of wheels.
REAL = ("libcudart.so.*", "libcublas.so.*", "libcudnn.so.*", "libnccl.so.*")
FOLDERS = ("/usr/local/cuda*/lib64", "/usr/local/cuda*/lib", "/usr/lib/*-linux-gnu",
           "/usr/lib/python3*/*-packages/nvidia/*/lib", "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
           f"{sysconfig.get_paths()['purelib']}/nvidia/*/lib")

# Its input lines: "map FILE" maps all of a file as code, without loading it, and prints the
# monotonic time just before it; "fork N" makes N processes that have the same mappings.
MAPPER = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int map(const char *path)
{
	struct stat status;
	struct timespec now;
	int fd;

	clock_gettime(CLOCK_MONOTONIC, &now);
	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &status) ||
	    mmap(NULL, status.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) {
		perror(path);
		return 1;
	}
	close(fd);
	printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
	return 0;
}

int main(void)
{
	char line[4096];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "map ", 4) && map(line + 4))
			return 1;
		for (int n = strncmp(line, "fork ", 5) ? 0 : atoi(line + 5); n > 0; n--) {
			if (!fork()) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				for (;;)
					pause();
			}
			if (n == 1)
				puts("0");
		}
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
            # Two ends each, as C++ functions are found in code in this form.
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

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"the mapper cannot {line}")
        return int(answer)

    def map(self, path):
        """When it was about to, in seconds of the monotonic clock."""
        return self.ask(f"map {path}") / 1e9

    def fork(self, processes):
        if processes:
            self.ask(f"fork {processes}")

    def end(self):
        self.process.kill()
        self.process.wait()


def configuration(folder, mode, language):
    names = "_Z*bench_wanted_*" if language == "c++" else "bench_wanted_*"
    shipped = "".join(f"    {name}: {{enabled: false}}\n"
                      for name in ("cuda", "cublas", "cudnn", "nccl", "libtorch"))
    path = folder / f"{mode}.yaml"
    path.write_text("cuda: {enabled: false}\nfunctions:\n"
                    f"  attach: {mode}\n  max_functions: 65536\n  groups:\n{shipped}"
                    f"    bench:\n      libraries: [\"libbench_attach_*.so\"]\n"
                    f"      functions: [\"{names}\"]\n")
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
        # The server starts when everything is attached: this line means that it is ready.
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
                    sys.exit(line.decode())  # its output before it has a log
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
            if line.startswith('gpusnoop_probe_attached_functions{probe="functions"}'):
                return int(float(line.split()[-1]))
        return 0

    def stop(self):
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        took = time.monotonic() - began
        self.wait_for_helper()
        return took

    def wait_for_helper(self):
        for line in (self.text + (self.process.stderr.read() or b"")).splitlines():
            said = json.loads(line) if line.startswith(b"{") else {}
            if said.get("msg", "").startswith("a helper process detaches"):
                wait_for_helper(said["pid"])


def one_round(binary, folder, library, mode, functions, copies, language, processes=1):
    """Seconds: until all is attached, until a new copy is, until the exporter has ended."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    mapper = Mapper(folder.parent)
    paths = []
    for n in range(copies + 1):
        paths.append(folder / f"libbench_attach_{n}.so")
        shutil.copyfile(library, paths[-1])
    for path in paths[:-1]:
        mapper.map(path)
    mapper.fork(processes - 1)
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


def one_real_round(binary, folder, libraries):
    """Seconds until each library was attached to, and until the exporter has ended."""
    mapper = Mapper(folder)
    config = folder / "default.yaml"
    config.write_text("")
    exporter = Exporter(binary, config)
    times, functions = [], []
    for path in libraries:
        asked = mapper.map(path)
        line, noticed = exporter.wait_for(
            lambda line, name=path.name: line.get("msg") == "attached" and line.get("library") == name)
        times.append(noticed - asked)
        functions.append(int(line["functions"]))
    stopped = exporter.stop()
    mapper.end()
    return times, functions, stopped


def real_libraries():
    """(found, patterns that were not): of each the first, by its real name."""
    found, missing = [], []
    for pattern in REAL:
        paths = [path for folder in FOLDERS for path in sorted(glob.glob(f"{folder}/{pattern}"))]
        if paths:
            found.append(Path(paths[0]).resolve())
        else:
            missing.append(pattern)
    return found, missing


def shown(seconds):
    ms = [1000 * s for s in seconds]
    return f"{statistics.median(ms):.0f} ({min(ms):.0f} to {max(ms):.0f})"


def medians(times):
    """Of rounds of several times each, by which of them it is."""
    return [statistics.median(column) for column in zip(*times)]


class Measured:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.libraries = {}
        self.tables, self.bars = [], []

    def library(self, functions):
        if functions not in self.libraries:
            self.libraries[functions] = build(self.folder, functions, self.options.others, self.options.language).rename(
                self.folder / f"library_{functions}.so")
        return self.libraries[functions]

    def round(self, mode, functions, copies, processes=1):
        return one_round(self.options.exporter, self.folder, self.library(functions), mode, functions, copies,
                         self.options.language, processes)

    def bar(self, what, most, seconds, limit):
        self.bars.append({"what": what, "bar": f"<= {most * 1000:.0f} ms", "measured": f"{shown(seconds)} ms",
                          "met": statistics.median(seconds) <= most, "limit": limit})

    def modes(self):
        """Each way to attach, in turns."""
        options = self.options
        sizes = {mode: (options.perf_functions, 1) if mode == "perf" else (options.functions, options.copies)
                 for mode in options.modes}
        times = {mode: [] for mode in options.modes}
        for _ in range(options.rounds):
            for mode, (functions, copies) in sizes.items():
                times[mode].append(self.round(mode, functions, copies))
        without = [self.round(options.modes[0], options.functions, 0) for _ in range(options.rounds)]
        rows = [[mode, f"{functions} x {copies}"] + [shown(column) for column in zip(*times[mode])]
                for mode, (functions, copies) in sizes.items()]
        rows.append([options.modes[0], "none"] + [shown(column) for column in zip(*without)])
        start_alone, _, stop_alone = medians(without)
        self.tables.append({
            "title": "Start, attach, detach",
            "text": f"The exporter starts while a process has mapped copies of a library with that many traced functions (and {options.others} others), each copy a separate "
                    f"file. Then one more copy is mapped, and the exporter is stopped. {options.rounds} rounds in which the modes take turns: medians, with minimum and maximum "
                    "in parentheses. In the last row, there is nothing to attach to at startup.",
            "columns": ["mode", "functions x copies"] + COLUMNS, "rows": rows})
        for mode in ("session", "multi"):
            if mode in times:
                started, noticed, stopped = zip(*times[mode])
                functions, copies = sizes[mode]
                self.bar(f"start to all attached, {functions} functions x {copies} copies, {mode}", 0.5, started,
                         f"{1000 * start_alone:.0f} ms with nothing to attach to, most of it for the kernel's verification of all probes' programs")
                self.bar(f"new library copy opened to attached, {functions} functions, {mode}", 0.01, noticed,
                         "reading the file and attaching to its functions, after the kernel reports the mapping")
                self.bar(f"SIGTERM to exit, {functions} functions x {copies + 1} copies, {mode}", 0.3, stopped,
                         f"{1000 * stop_alone:.0f} ms with one copy: the kernel closes the 7 perf events of the probe fence one after the "
                         "other, and waits for a grace period at each")

    def growth(self, what, loads, title, text, take):
        """`take` makes one round at a load."""
        mode = self.options.modes[0]
        times = {load: [] for load in loads}
        for _ in range(self.options.growth_rounds):
            for load in loads:
                times[load].append(take(mode, load))
        rows = [[str(load)] + [shown(column) for column in zip(*times[load])] for load in loads]
        fits = zip(*[medians(times[load]) for load in loads])
        rows.append(["exponent"] + [exponent_text(list(zip(loads, costs))) for costs in fits])
        self.tables.append({"title": title, "text": f"{text} Mode {mode}, {self.options.growth_rounds} rounds.",
                            "columns": [what] + COLUMNS, "rows": rows})

    def by_functions(self):
        least = max(1, self.options.functions // 10)
        self.growth("functions per copy", [least * times for times in GROWTH], "Attach time by number of functions",
                    f"The same with {self.options.copies} copies of a library with that many functions.",
                    lambda mode, load: self.round(mode, load, self.options.copies))

    def by_processes(self):
        self.growth("processes", [self.options.processes * times for times in GROWTH], "Discovery time by number of processes",
                    f"The same with {self.options.copies} copies of {self.options.perf_functions} functions, mapped by that many processes: the exporter examines each process.",
                    lambda mode, load: self.round(mode, self.options.perf_functions, self.options.copies, load))

    def real(self):
        libraries, missing = real_libraries()
        text = "With the default configuration: time from mapped to attached, which covers reading symbols, selecting functions and attaching to them."
        if missing:
            text += f" Not installed here, and therefore left out: {', '.join(missing)}."
        rows = []
        if libraries:
            rounds = [one_real_round(self.options.exporter, self.folder, libraries) for _ in range(self.options.growth_rounds)]
            for n, path in enumerate(libraries):
                taken = [times[n] for times, _, _ in rounds]
                rows.append([path.name, f"{path.stat().st_size / 1e6:.0f}", str(rounds[0][1][n]), shown(taken)])
                self.bar(f"{path.name} opened to attached", 0.1, taken, "reading the symbols of such a large file")
            rows.append(["all of them: SIGTERM to exit", "", "", shown([stopped for _, _, stopped in rounds])])
        else:
            rows.append(["none", "", "", ""])
        self.tables.append({"title": "NVIDIA's libraries", "text": text, "columns": ["library", "MB", "functions", "ms"], "rows": rows})

    def give(self):
        for table in self.tables:
            print(f"{table['title']}. {table['text']}\n")
            for line in [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]:
                print("| " + " | ".join(line) + " |")
            print()
        for bar in self.bars:
            print(f"{bar['what']}: {bar['measured']} is to be {bar['bar']}: {'met' if bar['met'] else 'MISSED'}")
        if self.options.json:
            self.options.json.write_text(json.dumps({"tables": self.tables, "bars": self.bars}), encoding="utf-8")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="where the exporter is (build/release)")
    parser.add_argument("--functions", type=int, default=200, help="of each copy (200)")
    parser.add_argument("--others", type=int, default=5000, help="that are not asked for (5000)")
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--processes", type=int, default=10, help="the fewest that discovery is tried with (10)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--growth-rounds", type=int, default=3, help="of what is tried at several loads (3)")
    parser.add_argument("--language", choices=["c", "c++"], default="c")
    parser.add_argument("--modes", nargs="+", choices=["session", "multi", "perf"], default=["session", "multi", "perf"])
    parser.add_argument("--perf-functions", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="one round of little, for a test")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the tables, for bench/run.py")
    options = parser.parse_args()
    options.exporter = options.build / "gpusnoop_exporter"
    if options.quick:
        options.rounds = options.growth_rounds = 1
        options.functions, options.others, options.copies, options.processes, options.perf_functions = 20, 100, 2, 1, 2
    return options


def main():
    options = parse()
    if os.geteuid() != 0:
        sys.exit("this needs root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        measured = Measured(options, Path(name))
        measured.modes()
        measured.by_functions()
        measured.by_processes()
        measured.real()
    measured.give()


if __name__ == "__main__":
    main()
