#!/usr/bin/env python3
"""What a scrape costs: the exporter's page at 1,000, 10,000 and 100,000 series, beside prometheus-cpp's Exposer with the
same series and Debian's node_exporter.

cmake --build --preset release --target bench
bench/scrape.py              about ten minutes
bench/scrape.py --quick      a few scrapes of each
"""

import contextlib
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import time

import figures
from fit import exponent_text

SIZES = (1_000, 10_000, 100_000)
BARS_MS = {10_000: 25, 100_000: 150}
ROOT = pathlib.Path(__file__).resolve().parent.parent
NODE_EXPORTER = (pathlib.Path("/usr/bin/prometheus-node-exporter"),
                 ROOT / ".deps/node-exporter/usr/bin/prometheus-node-exporter")
TEXT, OPENMETRICS = "text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"
# name, server, Accept, compressed or not. Prometheus uses the third.
KINDS = (("ours", "ours", TEXT, False), ("ours, gzip", "ours", TEXT, True),
         ("ours, gzip, OpenMetrics", "ours", OPENMETRICS, True),
         ("Exposer", "exposer", TEXT, False), ("Exposer, gzip", "exposer", TEXT, True))
# The time that the default ring holds, of the shortest call records at a million calls a second.
RING_BYTES, RECORD_BYTES = 8 << 20, 72 + 8
RING_MS = RING_BYTES / RECORD_BYTES / 1e6 * 1e3


class Server:
    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def ask(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return [int(one) for one in self.process.stdout.readline().split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class NodeExporter:
    """At its own size. Go says how much it allocated on the page itself."""

    def __init__(self, binary):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen([binary, f"--web.listen-address=127.0.0.1:{self.port}"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            with contextlib.suppress(OSError):
                scrape(self.port, TEXT, False)
                return
            time.sleep(0.1)
        raise SystemExit("scrape.py: node_exporter did not start")

    def mallocs(self):
        page = scrape(self.port, TEXT, False)[1]
        return [int(float(re.search(rb"^go_memstats_mallocs_total (\S+)$", page, re.M).group(1)))]

    def close(self):
        self.process.terminate()
        self.process.wait(10)


def scrape(port, accept, compressed):
    """Seconds from connecting to the last byte, and the body. HTTP/1.0, so that nobody sends it in chunks."""
    request = (f"GET /metrics HTTP/1.0\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n"
               + ("Accept-Encoding: gzip\r\n" if compressed else "") + "\r\n").encode()
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request)
        pieces = []
        while piece := connection.recv(1 << 20):
            pieces.append(piece)
    seconds = time.perf_counter() - began
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1]
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    if status != b"200" or (length and int(length.group(1)) != len(body)) or (b"content-encoding: gzip" in head.lower()) != compressed:
        raise SystemExit(f"scrape.py: a wrong answer: {head.decode(errors='replace')}")
    return seconds, body


def samples_of(page):
    return sum(1 for line in page.splitlines() if line and not line.startswith(b"#"))


def kibibytes(process, field):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return int(re.search(rf"^{field}:\s+(\d+)", status, re.M).group(1))


def forget_peak(process):
    pathlib.Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")


class Kind:
    """What scrapes of one kind took."""

    def __init__(self, name, server, accept, compressed):
        self.name, self.server, self.accept, self.compressed = name, server, accept, compressed
        self.rounds = []  # seconds of each scrape
        self.allocations = []
        self.peak = 0
        self.pause = 0
        self.size = self.samples = 0

    def round(self, count):
        is_node = isinstance(self.server, NodeExporter)
        forget_peak(self.server.process)
        before = self.server.mallocs() if is_node else self.server.ask("sample")
        taken = [scrape(self.server.port, self.accept, self.compressed) for _ in range(count)]
        if is_node:  # the second read of the number is a scrape, too
            self.allocations.append((self.server.mallocs()[0] - before[0]) / (count + 1))
        else:
            allocations, _, pause = self.server.ask("sample")
            self.allocations.append(allocations / count)
            self.pause = max(self.pause, pause)
        self.rounds.append([seconds for seconds, _ in taken])
        self.peak = max(self.peak, kibibytes(self.server.process, "VmHWM"))
        self.size = len(taken[-1][1])

    def seconds(self):
        return [one for round_ in self.rounds for one in round_]

    def p50(self):
        return statistics.median(self.seconds())

    def p99(self):
        return figures.quantile(self.seconds(), 0.99)

    def ratios(self, other):
        return [statistics.median(a) / statistics.median(b) for a, b in zip(self.rounds, other.rounds)]


def row(kind, other):
    return [kind.name, f"{kind.samples:,}", f"{kind.p50() * 1e3:.2f}", f"{kind.p99() * 1e3:.2f}", f"{kind.size:,}",
            f"{statistics.median(kind.allocations):,.0f}", f"{kind.rest / 1024:.1f}", f"{kind.peak / 1024:.1f}",
            figures.ratio_text(kind.ratios(other)) if other else ""]


def measure(options, size, rounds, count):
    """kinds, parts of a scrape, writing, and the longest pause at rest"""
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(contextlib.closing(Server(options.build / "bench" / program, str(size))))
                   for name, program in (("ours", "scrape_server"), ("exposer", "scrape_exposer"))}
        kinds = [Kind(name, servers[server], accept, compressed) for name, server, accept, compressed in KINDS]
        node = next((one for one in NODE_EXPORTER if one.exists()), None)
        if node and size == SIZES[0]:
            server = stack.enter_context(contextlib.closing(NodeExporter(node)))
            kinds += [Kind("node_exporter", server, TEXT, False), Kind("node_exporter, gzip", server, TEXT, True)]
        for kind in kinds:
            kind.rest = kibibytes(kind.server.process, "VmRSS")
            kind.samples = samples_of(scrape(kind.server.port, TEXT, False)[1])
        for _ in range(rounds):
            for kind in kinds:
                kind.round(count)
        servers["ours"].ask("sample")
        time.sleep(0.2 if options.quick else 3)
        at_rest = servers["ours"].ask("sample")[2]
        parts = [servers["ours"].ask("parts") for _ in range(rounds)]
        written = [servers["ours"].ask("write") for _ in range(rounds)]
        return kinds, parts, written, at_rest


def growth_rows(found):
    rows = []
    for index, (name, *_) in enumerate(KINDS):
        kinds = [found[size][0][index] for size in SIZES]
        grows = lambda of: exponent_text([(kind.samples, of(kind)) for kind in kinds])
        rows.append([f"{name}: exponent", "", grows(Kind.p50), grows(Kind.p99), grows(lambda kind: kind.size),
                     grows(lambda kind: statistics.median(kind.allocations)), grows(lambda kind: kind.rest),
                     grows(lambda kind: kind.peak), ""])
    return rows


def scrape_table(results, found):
    rows = []
    for size in SIZES:
        kinds = found[size][0]
        by_name = {kind.name: kind for kind in kinds}
        for kind in kinds:
            other = None
            if kind.name.startswith("ours"):
                other = by_name["Exposer, gzip" if kind.compressed else "Exposer"]
            rows.append(row(kind, other))
    if not any(kind[0].startswith("node_exporter") for kind in rows):
        rows.append(["node_exporter", "missing: scripts/setup.sh --tests", "", "", "", "", "", "", ""])
    results.table(
        "Scrapes",
        "\"Ours\" is the exporter's aggregators, fed with the records of one program per thousand series, with its own pipeline and HTTP "
        "server; the others are prometheus-cpp's Exposer with a registry of the same series, and Debian's node_exporter with its own series. "
        "Each is a separate process, scraped in turns over loopback, with a new connection for each scrape. Allocations are calls of "
        "operator new, or Go's own count for node_exporter; the peak is resident memory.",
        ["scrape", "samples", "p50 ms", "p99 ms", "bytes", "allocations", "MiB before", "MiB peak", "p50 over the Exposer's"],
        rows + growth_rows(found))


def parts_table(results, found):
    rows, columns = [], ["samples", "snapshot ms", "own families ms", "text ms", "gzip ms", "longest pause scraped ms", "at rest ms"]
    loads, costs = [], [[] for _ in range(5)]
    for size in SIZES:
        kinds, parts, _, at_rest = found[size]
        pause = max(kind.pause for kind in kinds)
        medians = [statistics.median(part[i] for part in parts) for i in range(4)]
        loads.append(parts[0][4])
        for cost, value in zip(costs, [*medians, pause]):
            cost.append(value)
        rows.append([f"{parts[0][4]:,}", *(f"{one / 1e6:.3f}" for one in medians), f"{pause / 1e6:.2f}", f"{at_rest / 1e6:.2f}"])
    rows.append(["exponent", *(exponent_text(list(zip(loads, cost))) for cost in costs), ""])
    results.table(
        "Where a scrape's time goes",
        "Medians. The aggregating thread takes the snapshot; the thread of the scrape does the rest. A pause is the time between two rounds of the aggregating "
        "thread, in which it drains the rings: 10 ms at rest.", columns, rows)


def write_table(results, found):
    rows, ours, theirs = [], [], []
    for size in SIZES:
        samples, written = found[size][1][0][4], found[size][2]
        ratios = [one[0] / one[3] for one in written]
        median = lambda index: statistics.median(one[index] for one in written)
        ours.append((samples, median(0)))
        theirs.append((samples, median(3)))
        rows.append([f"{samples:,}", f"{median(0) / samples:.0f}", f"{median(3) / samples:.0f}", figures.ratio_text(ratios),
                     f"{median(1):,.0f}", f"{median(4):,.0f}", f"{median(2):,.0f}", f"{median(5):,.0f}"])
    rows.append(["exponent", exponent_text(ours), exponent_text(theirs), "", "", "", "", ""])
    results.table(
        "Rendering the text",
        "The same families, rendered by the exporter from its snapshots and by prometheus-cpp's TextSerializer from its data model, in turns. The exponents are those of the total time.",
        ["samples", "ours, ns per sample", "TextSerializer's", "ours over it", "ours, allocations", "TextSerializer's", "ours, bytes", "TextSerializer's"],
        rows)


def bars(results, found):
    least = min(found[SIZES[0]][0][:3], key=Kind.p99).p99() * 1e3
    for size, limit in BARS_MS.items():
        worst = max((kind for kind in found[size][0] if kind.name.startswith("ours")), key=Kind.p99)
        results.bar(f"scrape of {size:,} series, p99", f"<= {limit} ms",
                    f"{worst.p99() * 1e3:.1f} ms ({worst.name}; p50 {worst.p50() * 1e3:.1f} ms)", worst.p99() * 1e3 <= limit,
                    f"the machine: even {SIZES[0]:,} series have a p99 of {least:.0f} ms on it")
    kinds, _, _, at_rest = found[SIZES[-1]]
    pause = max(kind.pause for kind in kinds) / 1e6
    results.bar(f"consumer's longest pause while {SIZES[-1]:,} series are scraped",
                f"<= {RING_MS:.0f} ms, the capacity of the call ring at 1M launches/s",
                f"{pause:.1f} ms ({at_rest / 1e6:.1f} ms at rest)", pause <= RING_MS,
                "the aggregating thread did not get a CPU, or took the snapshot: the table of scrape time shows which")


def main():
    options = figures.parser(__doc__).parse_args()
    if not (options.build / "bench/scrape_server").exists():
        print(f"scrape.py: build the target bench first: there is no {options.build}/bench/scrape_server", file=sys.stderr)
        return 1
    # The time of a scrape grows with the page.
    rounds = dict.fromkeys(SIZES, (1, 2)) if options.quick else {1_000: (40, 25), 10_000: (40, 10), 100_000: (25, 4)}
    found = {size: measure(options, size, *rounds[size]) for size in SIZES}
    results = figures.Results()
    scrape_table(results, found)
    parts_table(results, found)
    write_table(results, found)
    bars(results, found)
    results.give(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
