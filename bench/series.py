#!/usr/bin/env python3
"""How many series there are, for docs/scale.md: the exporter with its default configuration, but without the host
probes, whose series depend on what happens, beside stand-in programs, each count less the one before. And with them,
beside four programs.

bench/series.py                     the numbers of docs/scale.md, from build/release, as root
bench/series.py --check docs/scale.md   exit code 1 if a count of a program there is another one
bench/series.py --head 200          also: what a Prometheus needs for 200 such nodes (takes two minutes)
"""

import argparse
import collections
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import http.server
import json
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
CUDA = ["--threads", "2", "--rate", "2000", "--memory-kinds", "--default-kind", "--seconds", "600", "--name"]
MATH = ["libcublas.so.12:cublasSgemm_v2", "libcublas.so.12:cublasGemmEx", "libcublas.so.12:cublasCreate_v2",
        "libcudnn.so.9:cudnnBackendExecute"]
# These exist from a function's second minute on, but are counted as if they existed from the first.
LAST_MINUTE = ("gpusnoop_function_duration_min_seconds", "gpusnoop_function_duration_max_seconds")
HOST = ("time", "life", "tasks", "pressure", "memory", "net", "block", "irq", "kvm")
# The rows of the table that do not depend on the kernel.
CHECKED = ("first process", "each further process", "each function")
PROGRAMS = 4


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return answer.read().decode()


def families_of(page):
    """family -> series"""
    counted = collections.Counter()
    family = None
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            family = line.split()[2]
        elif line and not line.startswith("#") and not any(f'"{one}"' in line or one == family for one in LAST_MINUTE):
            counted[family] += 1
    return counted


class Programs(contextlib.ExitStack):
    def start(self, *command, **options):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True, **options)
        self.callback(self._end, process)
        return process

    @staticmethod
    def _end(process):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def settled(port):
    """The page, once five scrapes, a third of a second apart, had the same series."""
    pages = []
    for _ in range(120):
        page = get(port, "/metrics")
        pages = [one for one in pages if families_of(one) == families_of(page)] + [page]
        if len(pages) == 5:
            return page
        time.sleep(0.35)
    raise SystemExit("series.py: the series do not settle")


def wait_for(what, condition):
    for _ in range(1200):
        with contextlib.suppress(OSError):
            if condition():
                return
        time.sleep(0.1)
    raise SystemExit(f"series.py: {what} did not come")


def exporter(programs, binary, directory, settings=""):
    port = free_port()
    config = pathlib.Path(directory, "config.yaml")
    # The programs that run beside the tests have their own series.
    config.write_text(f'discovery: {{exclude: ["*/standin/company/*"]}}\n{settings}', encoding="utf-8")
    programs.start(str(binary), f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error")
    wait_for("the exporter", lambda: get(port, "/-/ready"))
    return port


def measure(binary, standin, with_rules):
    """Pages by what ran when they were scraped, one on top of the other."""
    pages = {}
    off = ", ".join(f"{probe}: {{enabled: false}}" for probe in HOST)
    with tempfile.TemporaryDirectory() as directory, Programs() as programs:
        port = exporter(programs, binary, directory, f"host: {{{off}}}\n")
        pages["rest"] = settled(port)
        programs.start(f"{standin}/workload", *CUDA, "train")
        wait_for("the first process", lambda: 'comm="train"' in get(port, "/metrics"))
        pages["one process"] = settled(port)
        for _ in range(7):
            programs.start(f"{standin}/workload", *CUDA, "train")
        wait_for("all processes", lambda: len(re.findall(r'gpusnoop_process_info\{[^}]*comm="train"', get(port, "/metrics"))) == 8)
        pages["eight processes"] = settled(port)
        go = pathlib.Path(directory, "go")
        programs.start(f"{standin}/failing_libraries", "100", str(go), *[f"{standin}/{one}" for one in MATH])
        time.sleep(1)
        settled(port)  # attached to both libraries
        go.touch()
        wait_for("the functions", lambda: "cudnnBackendExecute" in get(port, "/metrics"))
        pages["functions"] = settled(port)
        recorded = record(programs, port, directory) if with_rules else {}
    return pages, recorded


def measure_with_host(binary, standin):
    """The pages at rest and beside four programs, with the host probes."""
    with tempfile.TemporaryDirectory() as directory, Programs() as programs:
        port = exporter(programs, binary, directory)
        rest = settled(port)
        names = [f"train-{number}" for number in range(PROGRAMS)]
        for name in names:
            programs.start(f"{standin}/workload", *CUDA, name)
        wait_for("the programs", lambda: all(f'comm="{name}"' in get(port, "/metrics") for name in names))
        return rest, settled(port)


class WithHost:
    """What docs/scale.md says of four programs."""

    SENTENCE = (r"four such programs has ([0-9,]+) series, ([0-9,]+) each; before, it had [0-9,]+, ([0-9,]+) each, "
                r"of which [0-9,]+ were 0 \(now ([0-9,]+)\)")

    def __init__(self, rest, programs):
        self.series = sum(families_of(programs).values())
        self.each = (self.series - sum(families_of(rest).values())) / PROGRAMS
        self.zeros = len(re.findall(r"^[^#\n].* 0$", programs, re.M))

    def __str__(self):
        return f"with the host probes, {PROGRAMS} programs: {self.series} series, {self.each:g} each; {self.zeros} are 0"

    def wrong(self, text):
        """What is wrong in the text, as sentences. What a program waits for, and so has series of, is not always the same."""
        found = re.search(self.SENTENCE.replace(" ", r"\s+"), text)
        if not found:
            return ["the sentence about four programs is not there"]
        series, each, before, zeros = (int(number.replace(",", "")) for number in found.groups())
        wrong = [f"{what} with the host probes: {said}, and it is {now:g}"
                 for what, said, now in (("four programs", series, self.series), ("each of them", each, self.each),
                                         ("of which are 0", zeros, self.zeros)) if abs(said - now) > said / 10]
        if 2 * self.each > before:
            wrong.append("a program has more than half of the series before")
        return wrong


def prometheus(programs, directory, targets, rules=""):
    """Targets: (address, instance). Returns the port."""
    port = free_port()
    config = {"global": {"scrape_interval": "1s" if rules else "15s", "scrape_timeout": "1s" if rules else "10s",
                         "evaluation_interval": "1s"},
              "rule_files": [rules] if rules else [],
              "scrape_configs": [{"job_name": "gpusnoop", "static_configs": [
                  {"targets": [address], "labels": {"instance": instance}} for address, instance in targets]}]}
    path = pathlib.Path(directory, f"prometheus-{port}.yml")
    path.write_text(json.dumps(config), encoding="utf-8")
    programs.start(str(ROOT / ".deps/tools/usr/bin/prometheus"), f"--config.file={path}",
                   f"--storage.tsdb.path={directory}/data-{port}", f"--web.listen-address=127.0.0.1:{port}",
                   "--log.level=error")
    wait_for("Prometheus", lambda: get(port, "/-/ready"))
    return port


def ask(port, query):
    answer = json.loads(get(port, f"/api/v1/query?query={urllib.parse.quote(query)}"))
    return {next(iter(one["metric"].values()), ""): float(one["value"][1]) for one in answer["data"]["result"]}


def record(programs, exporter_port, directory):
    """level of the rules -> how many series they record of this one node"""
    port = prometheus(programs, directory, [(f"127.0.0.1:{exporter_port}", "node")],
                      str(ROOT / "dashboards/rules/gpusnoop_recording.yaml"))
    counted = 'count by (level) (label_replace({__name__=~".+:.+"}, "level", "$1", "__name__", "([a-z]+):.*"))'
    before, same = None, 0
    for _ in range(40):
        time.sleep(1)
        found = ask(port, counted)
        same = same + 1 if found == before and found else 0
        before = found
        if same == 8:
            return found
    raise SystemExit("series.py: the recorded series do not settle")


def head(page, nodes):
    """Resident memory, heap and series of a Prometheus that scrapes so many nodes with this page for a while."""
    body = page.encode()

    class Node(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Node)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as directory, Programs() as programs:
        port = prometheus(programs, directory, [(f"127.0.0.1:{server.server_port}", f"node-{n}:19435") for n in range(nodes)])
        time.sleep(105)
        own = get(port, "/metrics")
    server.shutdown()
    value = lambda name: float(re.search(rf"^{name} (\S+)$", own, re.M).group(1))
    return value("prometheus_tsdb_head_series"), value("process_resident_memory_bytes"), value("go_memstats_heap_inuse_bytes")


def rows(pages):
    """name -> (series, bytes)"""
    sizes = {name: (sum(families_of(page).values()), len(page)) for name, page in pages.items()}
    less = lambda a, b, by=1: tuple((x - y) / by for x, y in zip(sizes[a], sizes[b]))
    of_functions = {name: sum(count for family, count in families_of(page).items() if "_function_" in family)
                    for name, page in pages.items()}
    per_function = (of_functions["functions"] - of_functions["eight processes"]) / len(MATH) + len(LAST_MINUTE)
    return {
        "a node at rest": sizes["rest"],
        "first process": less("one process", "rest"),
        "each further process": less("eight processes", "one process", 7),
        "each function": (per_function, less("functions", "eight processes")[1] / len(MATH)),
    }


def print_all(pages, recorded):
    for name, (series, size) in rows(pages).items():
        print(f"| {name} | {series:g} | {size / 1000:.1f} kB |")
    if recorded:
        print("\nrecorded of this node: " + ", ".join(f"{level}: {count:g}" for level, count in sorted(recorded.items())))
    for what, first, second in (("the first process", "rest", "one process"),
                                ("seven more", "one process", "eight processes")):
        print(f"\nof {what}, by family:")
        for family, count in (families_of(pages[second]) - families_of(pages[first])).most_common():
            print(f"| `{family}` | {count} |")


def check(pages, with_host, path):
    text = path.read_text(encoding="utf-8")
    wrong = 0
    for name, (series, _) in rows(pages).items():
        found = re.search(rf"^\| {re.escape(name)}[^|]*\| ([0-9.]+) \|", text, re.M)
        # One or two depend on a process's state at that moment.
        if name in CHECKED and (not found or abs(float(found.group(1)) - series) > max(1, series / 100)):
            print(f"{path}: {name}: {found.group(1) if found else 'is not there'}, and it is {series:g}")
            wrong = 1
    # A program costs at most half of what it did with all histograms.
    before = re.search(r"^\| first process.*\| ([0-9.]+) \|$", text, re.M)
    if not before or 2 * rows(pages)["first process"][0] > float(before.group(1)):
        print(f"{path}: a first process has more than half of the series before")
        wrong = 1
    for sentence in with_host.wrong(text):
        print(f"{path}: {sentence}")
        wrong = 1
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--check", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--head", type=int, metavar="NODES")
    parser.add_argument("--page", type=pathlib.Path, help="where to leave the last page")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("series.py: the exporter has to be started as root")
        return 1 if "CI" in os.environ else 4
    binary, standin = options.build / "gpusnoop_exporter", options.build / "standin"
    pages, recorded = measure(binary, standin, not options.check)
    with_host = WithHost(*measure_with_host(binary, standin))
    if options.page:
        options.page.write_text(pages["functions"], encoding="utf-8")
    print_all(pages, recorded)
    print(f"\n{with_host}")
    if options.head:
        series, resident, heap = head(pages["functions"], options.head)
        print(f"\n{options.head} nodes: {series:g} series, {resident / series:.0f} bytes of memory each, {heap / series:.0f} of heap")
    return check(pages, with_host, options.check) if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
