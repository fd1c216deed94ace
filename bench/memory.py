#!/usr/bin/env python3
"""What the exporter's memory holds, in user space and in the kernel: at rest, for each process that is traced, for each
series, and for each allocation that lives.

cmake --build --preset release --target gpusnoop_exporter standin_workload
sudo bench/memory.py         about three minutes
sudo bench/memory.py --quick
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import figures
import series
from fit import exponent_text

MIB = 1 << 20
BAR_MIB, BAR_MAPS_MIB, BAR_PROCESSES = 45, 48, 64


class Exporter:
    """One with its default configuration, but for what runs beside the tests, from now to close()."""

    def __init__(self, binary):
        self.directory = tempfile.TemporaryDirectory()
        config = pathlib.Path(self.directory.name, "config.yaml")
        config.write_text('discovery: {exclude: ["*/standin/company/*"]}', encoding="utf-8")
        self.port = series.free_port()
        self.process = subprocess.Popen([binary, f"--config.file={config}", f"--web.listen-address=127.0.0.1:{self.port}",
                                         "--log.level=error"])
        series.wait_for("the exporter", lambda: series.get(self.port, "/-/ready"))

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        self.directory.cleanup()

    def page(self):
        return series.get(self.port, "/metrics")

    def memory(self):
        return Memory(self.process.pid)


class Memory:
    """Bytes: of user space by what is mapped there, of the kernel as it accounts for BPF."""

    def __init__(self, pid):
        status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        field = lambda name: int(re.search(rf"^{name}:\s+(\d+) kB", status, re.M).group(1)) * 1024
        self.resident, self.peak, self.anonymous = field("VmRSS"), field("VmHWM"), field("RssAnon")
        self.rings = self._of_bpf_maps(pid)
        self.files = self.resident - self.anonymous - self.rings
        self.maps, self.programs = self._in_kernel(pid)

    @staticmethod
    def _of_bpf_maps(pid):
        total, is_map = 0, False
        for line in pathlib.Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
            if re.match(r"^[0-9a-f]+-[0-9a-f]+ ", line):
                is_map = line.endswith("bpf-map")
            elif is_map and line.startswith("Rss:"):
                total += int(line.split()[1]) * 1024
        return total

    @staticmethod
    def _in_kernel(pid):
        """Each map and each program once, though several descriptors may lead to it."""
        found = {"map_id": {}, "prog_id": {}}
        for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                fields = dict(line.split(":", 1) for line in entry.read_text(encoding="utf-8").splitlines() if ":" in line)
                for kind, known in found.items():
                    if kind in fields and "memlock" in fields:
                        known[fields[kind].strip()] = int(fields["memlock"])
        return sum(found["map_id"].values()), sum(found["prog_id"].values())


def value_of(page, name, label=""):
    found = re.findall(rf"^{name}(?:\{{[^}}]*{re.escape(label)}[^}}]*\}})? (\S+)$", page, re.M)
    return sum(float(one) for one in found)


def samples_of(page):
    return sum(series.families_of(page).values())


def settled(exporter, is_there):
    """A page that has what was done, when three scrapes were of the same series and a second passed after them: what is tidied once a second is tidied."""
    same, last = 0, None
    for _ in range(600):
        page = exporter.page()
        found = (samples_of(page), value_of(page, "gpusnoop_cuda_memory_outstanding_allocations"))
        same = same + 1 if is_there(page) and found == last else 0
        last = found
        if same == 3:
            time.sleep(1.2)
            return exporter.page()
        time.sleep(0.2)
    raise SystemExit("memory.py: the page does not show what was done")


def wait_until_holding(process):
    while line := process.stdout.readline():
        if line.strip() == "holding":
            return
    raise SystemExit("memory.py: the workload ended")


def run_held(options, commands):
    """(page, memory before, memory after) of an exporter while programs did this, and hold what they have. It is attached before they begin."""
    with contextlib.closing(Exporter(options.build / "gpusnoop_exporter")) as exporter, series.Programs() as programs:
        page, go = exporter.page(), pathlib.Path(exporter.directory.name, "go")
        held = [programs.start(str(options.build / "standin/workload"), "--hold", "--wait-for-file", str(go), *command)
                for command in commands]
        if held:
            attached = lambda text: value_of(text, "gpusnoop_probe_attached_functions", 'probe="cuda"') > 0
            page = settled(exporter, attached)
        before = exporter.memory()
        go.touch()
        for process in held:
            wait_until_holding(process)
        if held:
            page = settled(exporter, lambda text: text.count("\ngpusnoop_process_info{") == len(held))
        return page, before, exporter.memory()


def with_processes(options, count, name):
    """`name` makes a program's name of a number."""
    return run_held(options, [("--iterations", "150", "--memory-kinds", "--default-kind", "--name", name(number))
                              for number in range(count)])


def with_allocations(options, count):
    page, before, after = run_held(options, [("--hoard", str(count), "--iterations", "0", "--name", "hoard")])
    shown = value_of(page, "gpusnoop_cuda_memory_outstanding_allocations", 'comm="hoard"')
    if shown != count:
        raise SystemExit(f"memory.py: the page shows {shown:.0f} of {count} allocations")
    return before, after


def mib(size):
    return f"{size / MIB:.1f}"


def row(what, page, memory):
    return [what, f"{samples_of(page):,}", mib(memory.resident), mib(memory.rings), mib(memory.files), mib(memory.anonymous),
            mib(memory.peak), mib(memory.maps), mib(memory.programs)]


def processes_tables(results, options, counts):
    page, _, rest = with_processes(options, 0, str)
    rows = [row("0", page, rest)]
    added = []
    found = {}
    for what, name in (("of one program", lambda number: "train"), ("each of its own", lambda number: f"train-{number}")):
        of_this = []
        for count in counts:
            if count == 1 and found:
                page, memory = found[counts[0], "of one program"]  # one program counts in both
            else:
                page, before, memory = with_processes(options, count, name)
                of_this.append((count, memory.anonymous - before.anonymous, memory.maps - before.maps))
                rows.append(row(f"{count}, {what}" if count > 1 else "1", page, memory))
            found[count, what] = page, memory
        added.append((what, of_this))
    results.table(
        "Memory by number of traced processes",
        "The exporter with its default configuration, and traced stand-in programs that hold their allocations (150 iterations each, with four kinds of memory). In MiB, "
        "after a few scrapes. In user space: rings are the mapped part of the BPF ring buffers; files are the code of the exporter and its libraries; anonymous is the rest; "
        "peak is the highest resident memory. In the kernel: its own accounting of the exporter's BPF maps (including the rings) and programs.",
        ["processes", "samples", "resident", "rings", "files", "anonymous", "peak", "kernel: maps", "kernel: programs"], rows)
    most = counts[-1]
    one, same, own = (found[counts[0], "of one program"], found[most, "of one program"], found[most, "each of its own"])
    series_between = samples_of(own[0]) - samples_of(same[0])
    rows = []
    if most > counts[0]:
        for what, many in (("one more process, of the same program", same), ("one more process, of a new program", own)):
            rows.append([what, f"{(many[1].anonymous - one[1].anonymous) / (most - counts[0]) / 1024:.1f} KiB",
                         f"{(many[1].maps - one[1].maps) / (most - counts[0]) / 1024:.1f} KiB"])
        rows.append(["one more series", f"{(own[1].anonymous - same[1].anonymous) / series_between:.0f} bytes", "none"])
        for what, points in added:
            points = points if points[0][0] == counts[0] else [added[0][1][0], *points]
            rows.append([f"exponent of the memory that processes add, {what}", exponent_text([(n, user) for n, user, _ in points]),
                         exponent_text([(n, kernel) for n, _, kernel in points])])
    results.table(
        "Memory per process and per series",
        f"Differences in the table above: {most} processes minus {counts[0]} for a process; {most} programs minus {most} processes of one program, divided by the additional "
        "series, for a series.",
        ["what", "user space", "kernel"], rows)
    worst = max(same[1].resident, own[1].resident)
    results.bar(f"resident memory, default configuration, {most} traced processes", f"<= {BAR_MIB} MiB",
                f"{mib(worst)} MiB ({mib(same[1].resident)} of one program, {mib(own[1].resident)} each of its own)",
                worst <= BAR_MIB * MIB,
                f"{mib(own[1].rings)} MiB are rings, {mib(own[1].files)} MiB code, {mib(own[1].anonymous)} MiB other memory")
    results.bar(f"kernel memory of BPF maps, default configuration, {most} traced processes", f"<= {BAR_MAPS_MIB} MiB",
                f"{mib(own[1].maps)} MiB", own[1].maps <= BAR_MAPS_MIB * MIB,
                f"{mib(own[1].rings)} MiB are rings, 16 MiB the buckets of the table for up to a million live allocations, and the rest "
                "other tables")


def allocations_table(results, options, counts):
    rows, points = [], []
    for count in counts:
        before, after = with_allocations(options, count)
        user, kernel = after.anonymous - before.anonymous, after.maps - before.maps
        points.append((count, user, kernel))
        rows.append([f"{count:,}", mib(user), f"{user / count:.0f}", mib(kernel), f"{kernel / count:.0f}",
                     mib(after.resident), mib(after.peak)])
    rows.append(["exponent", exponent_text([(n, user) for n, user, _ in points]), "",
                 exponent_text([(n, kernel) for n, _, kernel in points]), "", "", ""])
    results.table(
        "Memory by number of live allocations",
        "One program allocates 256 bytes that many times and frees nothing; the page counts all of them. The growth in user space (anonymous memory) and in the kernel (BPF maps).",
        ["live allocations", "user space MiB", "bytes each", "kernel MiB", "bytes each", "resident MiB", "peak MiB"], rows)


def main():
    options = figures.parser(__doc__).parse_args()
    if os.geteuid() != 0:
        print("memory.py: the exporter has to be started as root", file=sys.stderr)
        return 1
    results = figures.Results()
    processes_tables(results, options, (1, 2) if options.quick else (1, 8, BAR_PROCESSES))
    allocations_table(results, options, (100, 10_000) if options.quick else (10_000, 100_000, 1_000_000))
    results.give(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
