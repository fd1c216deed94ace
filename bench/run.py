#!/usr/bin/env python3
"""Builds and runs the benchmarks, one after the other, and writes what they have found to docs/benchmarks.md, and four numbers of
it to README.md.

    sudo bench/run.py                           all of them, which takes a while: on a machine that does nothing else
    sudo bench/run.py --only consumer           one of them (or several), printed and not written
    sudo bench/run.py --only consumer --update  and written in the place of what it had found before
    sudo bench/run.py --quick --output FILE     all of them, cut down: the figures say little

One that fails, or that does not say what it found, does not stop the others: it is named at the end, and the exit code is 1.
Missed bars are not failures. What a benchmark is to do to be run here is said in bench/README.md.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/benchmarks.md"
README = ROOT / "README.md"
README_BEGIN, README_END = "<!-- bench/run.py writes this -->\n", "<!-- until here -->\n"
# In the order in which they run: a script here, or else a program in the build's bench/.
BENCHMARKS = ("training_step", "bystander", "call_cost", "syscall_cost", "host_cost", "host_programs", "consumer", "attach_time", "cold_start",
              "scrape", "memory", "rest", "micro")
# What users ask first: the page begins with these, in this order. The bars and the figures behind them are its appendix.
FOR_USERS = ("training_step", "scrape", "memory")
FULL_SECONDS = 3600  # limit of one benchmark
QUICK_SECONDS = 100
TABLE_KEYS = {"title", "text", "columns", "rows"}
BAR_KEYS = {"what", "bar", "measured", "met", "limit"}


def command_of(name, build):
    """What runs it, or None: it is neither here nor built."""
    script, program = ROOT / "bench" / f"{name}.py", build / "bench" / name
    if script.is_file():
        return [sys.executable, str(script), "--build", str(build)]
    return [str(program)] if program.is_file() else None


def checked(results):
    """The results, or ValueError with what is wrong with them."""
    if not isinstance(results, dict) or not {"tables", "bars"} <= results.keys():
        raise ValueError("its JSON has no tables and bars")
    if not results["tables"]:
        raise ValueError("it has no tables")
    for table in results["tables"]:
        if not TABLE_KEYS <= table.keys():
            raise ValueError(f"a table lacks {', '.join(sorted(TABLE_KEYS - table.keys()))}")
        if not table["rows"]:
            raise ValueError(f"the table '{table['title']}' is empty")
        for row in table["rows"]:
            if len(row) != len(table["columns"]) or not all(isinstance(cell, str) for cell in row):
                raise ValueError(f"a row of '{table['title']}' does not fit its columns: {row}")
    for bar in results["bars"]:
        if not BAR_KEYS <= bar.keys():
            raise ValueError(f"a bar lacks {', '.join(sorted(BAR_KEYS - bar.keys()))}")
    return results


def end_group(process):
    """The benchmark and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run_one(name, build, quick, seconds):
    """(results, "") or (None, what went wrong)."""
    command = command_of(name, build)
    if command is None:
        return None, f"there is neither bench/{name}.py nor {build}/bench/{name}"
    with tempfile.TemporaryDirectory() as folder:
        found = pathlib.Path(folder, "results.json")
        process = subprocess.Popen(command + ["--json", str(found)] + (["--quick"] if quick else []), start_new_session=True)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None, f"it took more than {seconds} seconds"
        finally:
            end_group(process)
        if code != 0:
            return None, f"it ended with {code}"
        try:
            return checked(json.loads(found.read_text(encoding="utf-8"))), ""
        except (OSError, ValueError, AttributeError, TypeError) as error:
            return None, str(error)


def machine():
    """CPU model, CPUs, kernel and day."""
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    return (f"{model.group(1) if model else platform.machine()}, {len(os.sched_getaffinity(0))} CPUs, "
            f"Linux {platform.release()}, {datetime.date.today().isoformat()}")


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def markdown_table(columns, rows):
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(cell(one) for one in line) + " |\n" for line in lines)


def sections_of(name, results, note=""):
    """Its tables, as they are on the page. `note`: a sentence about them."""
    return [f"\n## {table['title']}\n\n{table['text']}{note} (`{name}`)\n\n" + markdown_table(table["columns"], table["rows"])
            for table in results["tables"]]


def bars_of(name, results):
    """The rows of its bars, as they are on the page."""
    rows = [[bar["what"], bar["bar"], bar["measured"], "met" if bar["met"] else "**missed**", "" if bar["met"] else bar["limit"],
             f"`{name}`"] for bar in results["bars"]]
    return markdown_table([], rows).splitlines(keepends=True)[2:]


def read_page(text):
    """(its first lines, name -> sections, name -> rows of bars)"""
    head, *sections = re.split(r"(?=\n## )", text)
    tables, bars = {}, {}
    for section in sections:
        if section.startswith("\n## Appendix: bars"):
            for row in re.findall(r"^\| .*\| `\w+` \|\n", section, re.M):
                bars.setdefault(re.search(r"`(\w+)` \|$", row.strip())[1], []).append(row)
        else:
            tables.setdefault(re.search(r"\(`(\w+)`\)$", section, re.M)[1], []).append(section)
    return head, tables, bars


def head_of(command, on, failed):
    """`failed`: name -> what went wrong."""
    text = ("# Benchmarks\n\n"
            f"Measured on {on}, by:\n\n```\n{command}\n```\n\n"
            "Generated by that command: do not edit. Compare the ratios, not the nanoseconds, which differ on other machines. The compared\n"
            "alternatives take turns within one run. A ratio is the median of the rounds, with the 10th and 90th percentile in parentheses. An\n"
            "exponent shows how a cost grows with the load: 0 is constant, 1 is proportional.\n")
    for name, why in failed.items():
        text += f"\n`{name}` is missing here: {why}.\n"
    return text


def page(head, tables, bars):
    """The document's text; name -> sections, name -> rows of bars."""
    rows = [row for name in BENCHMARKS for row in bars.get(name, [])]
    names = [name for name in FOR_USERS if name in tables]
    appendix = [name for name in BENCHMARKS if name in tables and name not in names]
    return (head + "".join(section for name in names for section in tables[name])
            + f"\n## Appendix: bars\n\nTargets for the figures; {sum('| met |' in row for row in rows)} of {len(rows)} are met. "
            "[performance.md](performance.md) describes what was tried to meet them. The tables with the figures follow.\n\n"
            + markdown_table(["what", "bar", "measured", "", "what limits it", "by"], []) + "".join(rows)
            + "".join(section for name in appendix for section in tables[name]))


def written(found, failed, command, on):
    """The page of a run of all benchmarks; `found`: name -> results."""
    return page(head_of(command, on, failed), {name: sections_of(name, results) for name, results in found.items()},
                {name: bars_of(name, results) for name, results in found.items()})


def updated(text, found, on):
    """The page, with what these benchmarks have found in the place of what they had found before."""
    head, tables, bars = read_page(text)
    for name, results in found.items():
        tables[name] = sections_of(name, results, f" Measured again on {on}.")
        bars[name] = bars_of(name, results)
    return page(head, tables, bars)


def with_numbers(readme, found):
    """The README's text, with what the benchmarks say there. Without any, what it said stays."""
    text = "".join(results.get("readme", "") for results in found.values())
    before, begin, rest = readme.partition(README_BEGIN)
    _, end, after = rest.partition(README_END)
    return before + begin + text + end + after if text and end else readme


def build_all(build):
    """As who has called sudo, so that what is built is not root's."""
    owner = os.environ.get("SUDO_USER")
    as_owner = ["sudo", "-u", owner] if owner and owner != "root" else []
    subprocess.run(as_owner + ["cmake", "--preset", "release"], cwd=ROOT, check=True)
    subprocess.run(as_owner + ["cmake", "--build", str(build), "--target", "bench"], cwd=ROOT, check=True)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="where the programs are (build/release)")
    parser.add_argument("--no-build", action="store_true", help="they are there already")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE", help="instead of docs/benchmarks.md")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME", help="one of: " + ", ".join(BENCHMARKS))
    parser.add_argument("--update", action="store_true", help="write what --only has found")
    options = parser.parse_args(arguments)
    if options.quick and not options.output and not options.only:
        parser.error("--quick needs --output: its figures are none for docs/benchmarks.md")
    if options.update and (not options.only or options.quick or options.output):
        parser.error("--update needs --only, and has no use for --quick and --output")
    return options


def main(arguments=None):
    options = parse(arguments)
    if os.geteuid() != 0:
        print("run.py: the benchmarks trace, so they have to be run as root", file=sys.stderr)
        return 1
    if not options.no_build:
        build_all(options.build)
    found, failed = {}, {}
    names = options.only or BENCHMARKS

    def announced(name):
        print(f"\n== {name}\n", flush=True)
        began = time.monotonic()
        result = run_one(name, options.build.resolve(), options.quick, QUICK_SECONDS if options.quick else FULL_SECONDS)
        print(f"run.py: {name} took {time.monotonic() - began:.0f} s", flush=True)
        return result

    # One at a time: what they measure, and what some of them count, is of the whole machine.
    ended = map(announced, names)
    for name, (results, why) in zip(names, ended):
        if results:
            found[name] = results
        else:
            failed[name] = why
            print(f"run.py: {name}: {why}", file=sys.stderr)
    output = options.output or (None if options.only else PAGE)
    if output:
        command = "sudo bench/run.py" + (" --quick" if options.quick else "")
        output.write_text(written(found, failed, command, machine()), encoding="utf-8")
        print(f"\nwritten to {output}")
    if options.update:
        PAGE.write_text(updated(PAGE.read_text(encoding="utf-8"), found, machine()), encoding="utf-8")
    if output == PAGE or options.update:
        README.write_text(with_numbers(README.read_text(encoding="utf-8"), found), encoding="utf-8")
    if failed:
        print(f"run.py: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
