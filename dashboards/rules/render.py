#!/usr/bin/env python3
"""Writes dashboards/rules/gpusnoop_*.yaml from source/*.yaml and source/thresholds.yaml.

  render.py                              writes them
  render.py --check                      fails, and says where, if a committed one is not what it would write
  render.py --set slow_calls=10 --output-dir DIR   with other thresholds, to another place
  render.py --faster 120 --output-dir DIR          with every duration divided, to test them in seconds

It also writes the rules of the Helm chart, in which @name@ is left where a threshold is only put in, for the
chart to put its values in. Thresholds that others are computed from, and `job`, are not the chart's to change.

In a source, @name@ is a threshold, @runbook@ the page of the alert that it stands in, and
@grown(SELECTOR, WINDOW)@ how much a counter has grown in a window, with a series that appeared in it
counted from zero if the exporter was scraped in the hour before it or has started in it: increase() alone does not see
the first value of a series, such as a first error. Without that, what was counted before a time without scrapes
would be new. @rises(SELECTOR, WINDOW, GROWTH, SHARE)@ is by how much the lowest value of a gauge rises from
each window to the next, three times in a row, each time by GROWTH and by SHARE of the first, if the series is
older than these windows. @seconds(DURATION)@ is a number. @program@ are the labels of a program, and @who@
names it in a text.
@lately(SELECTOR)@ is a series' last value, also after a failed scrape.
@with_pod(EXPRESSION)@ is an expression whose result has the label container_id, with the labels namespace
and pod where kube-state-metrics tells them, and as it is where not.
"""
import argparse
import difflib
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE.parent.parent / "docker/kubernetes/gpusnoop-exporter/files/rules"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000, "y": 31_536_000_000}
DURATION = r"(?:[0-9]+(?:ms|[smhdwy]))+"


class Mistake(Exception):
    pass


def read_thresholds(text):
    """name -> (value, line), of lines `name: value  # remark`."""
    thresholds = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(r"([a-z_]+): (\"[^\"]*\"|\S+)(?:\s+#.*)?", line)
        if not found:
            raise Mistake(f"thresholds.yaml:{number}: not `name: value`: {line}")
        name, value = found.group(1), found.group(2).strip('"')
        if name in thresholds:
            raise Mistake(f"thresholds.yaml:{number}: {name} is there twice")
        thresholds[name] = value
    return thresholds


def number_of(value):
    found = re.fullmatch(r"([0-9]+)(KiB|MiB|GiB|TiB)", value)
    return str(int(found.group(1)) * UNITS[found.group(2)]) if found else value


KNOWN = "1h"
# After a failed scrape a series has no value until the next one. An alert that waits must not begin anew for that.
LATELY = "4m"
# The labels that say which program it is, on every family of a probe.
PROGRAM = "comm, script, container_id, slurm_job_id"
WHO = ("{{ $labels.comm }}{{ with $labels.script }} {{ . }}{{ end }}{{ with $labels.slurm_job_id }} (Slurm job {{ . }}){{ end }}"
       "{{ with $labels.pod }} in the pod {{ $labels.namespace }}/{{ . }}{{ end }}")


def milliseconds(duration):
    return sum(int(n) * MILLISECONDS[unit] for n, unit in re.findall(r"([0-9]+)(ms|[smhdwy])", duration))


def times(number, duration):
    """A multiple of a duration, in Prometheus' way to write it."""
    total = number * milliseconds(duration)
    unit = next(unit for unit in ("h", "m", "s", "ms") if total % MILLISECONDS[unit] == 0)
    return f"{total // MILLISECONDS[unit]}{unit}"


def lately(selector):
    return f"last_over_time({selector}[{LATELY}])"


def rises(match):
    selector, window, growth, share = (text.strip() for text in match.groups())

    def lowest(windows_ago):
        offset = f" offset {times(windows_ago, window)}" if windows_ago else ""
        return f"min_over_time({selector}[{window}]{offset})"
    least = f"clamp_min({share} * {lowest(3)}, {growth})"
    steps = " and ".join(f"({lowest(ago)} - {lowest(ago + 1)} > {least})" for ago in range(3))
    return f"({steps} and last_over_time({selector}[{window}] offset {times(4, window)}) and {lately(selector)})"


def grown(match, seconds):
    selector, window = match.group(1).strip(), match.group(2).strip()
    # A series that comes back after a failed scrape is none that is new.
    # Before the window: long enough that a time without scrapes does not hide what was there before it.
    before = f"[{KNOWN}] offset {window}"
    return (f"({selector} unless last_over_time({selector}{before})"
            f" and on (cluster, job, instance) (max_over_time(up{before}) == 1"
            f" or time() - process_start_time_seconds < {seconds(window)})"
            f" or increase({selector}[{window}]))")


def with_pod(match):
    indent, before, expression = match.groups()
    expression = textwrap.indent(textwrap.dedent(expression).strip(), f"{indent}    ")
    # That a pod has ended is no reason to forget what it was called.
    return (f"{indent}{before}(\n{indent}  (\n{expression}\n{indent}  )\n"
            f"{indent}  * on (cluster, job, instance, container_id) group_left (namespace, pod)\n"
            f"{indent}    last_over_time(container_id:gpusnoop_pod:info[1h])\n"
            f"{indent}  or ignoring (namespace, pod) (\n{expression}\n{indent}  )\n{indent})")


def shorter(duration, divisor):
    return f"{max(1, round(milliseconds(duration) / divisor))}ms"


def faster(text, divisor):
    """Every range, offset, `for` and interval, divided. Durations in texts for people stay."""
    out = []
    in_annotations = False
    for line in text.splitlines(keepends=True):
        if re.match(r"\s*annotations:", line):
            in_annotations = True
        elif re.match(r"\s*- ", line) or re.match(r"\S", line):
            in_annotations = False
        if not in_annotations:
            line = re.sub(rf"\[({DURATION})\]", lambda m: f"[{shorter(m.group(1), divisor)}]", line)
            line = re.sub(rf"(\boffset |^\s*for: |^\s*keep_firing_for: |^\s*interval: )({DURATION})\b",
                          lambda m: m.group(1) + shorter(m.group(2), divisor), line)
        out.append(line)
    return "".join(out)


def computed_from(texts):
    """The thresholds that a rule computes with: windows of which there are several, and numbers of seconds."""
    windows = re.findall(r"@rises\(.*?, @([a-z_]+)@,[^,]*,[^,]*\)@|@grown\(.*?, @([a-z_]+)@\)@|@seconds\(@([a-z_]+)@\)@", texts)
    return {name for names in windows for name in names if name}


def render(name, text, thresholds, used, divisor, left=()):
    def seconds(duration):
        return f"{milliseconds(duration) / 1000 / divisor:g}"

    alert = None
    lines = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        found = re.match(r"\s*- alert: (\w+)$", line.rstrip())
        if found:
            alert = found.group(1)

        def value(match):
            key = match.group(1)
            if key in ("program", "who"):
                return PROGRAM if key == "program" else WHO
            if key == "runbook" and alert:
                used.add("runbooks")
                runbooks = "\0runbooks\0" if "runbooks" in left else thresholds["runbooks"]
                return f"{runbooks}/{alert}.md"
            if key not in thresholds:
                raise Mistake(f"{name}:{number}: no threshold is called {key}")
            used.add(key)
            return f"\0{key}\0" if key in left else number_of(thresholds[key])

        lines.append(re.sub(r"@([a-z_]+)@", value, line))
    text = re.sub(r"@seconds\(([^@]*)\)@", lambda match: seconds(match.group(1)), "".join(lines))
    text = re.sub(r"@rises\(([^@]*?),\s*([^@,]*),\s*([^@,]*),\s*([^@,]*?)\)@", rises, text)
    text = re.sub(r"@grown\(([^@]*?),\s*([^@,]*?)\)@", lambda match: grown(match, seconds), text)
    text = re.sub(r"@lately\(([^@]*?)\)@", lambda match: lately(match.group(1).strip()), text)
    text = re.sub(r"^( *)([^@\n]*)@with_pod\(([^@]*)\)@", with_pod, text, flags=re.M)
    if "@" in text:
        line = next(line for line in text.splitlines() if "@" in line)
        raise Mistake(f"{name}: not understood: {line.strip()}")
    text = text.replace("\0", "@")
    return f"# Made by dashboards/rules/render.py from source/{name}; do not edit.\n{text}"


def render_all(source_dir, settings, divisor=1, for_chart=False):
    """file name -> text"""
    thresholds = read_thresholds((source_dir / "thresholds.yaml").read_text())
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in thresholds:
            raise Mistake(f"--set {setting}: not NAME=VALUE with a NAME of thresholds.yaml")
        thresholds[name] = value
    used = set()
    rendered = {}
    sources = {path.name: path.read_text() for path in sorted(source_dir.glob("*.yaml")) if path.name != "thresholds.yaml"}
    left = set(thresholds) - computed_from("\n".join(sources.values())) - {"job"} if for_chart else set()
    for name, text in sources.items():
        rendered[f"gpusnoop_{name}"] = render(name, text, thresholds, used, divisor, left)
    unused = sorted(set(thresholds) - used)
    if unused:
        raise Mistake(f"thresholds.yaml: no rule uses {', '.join(unused)}")
    return rendered


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--faster", type=float, default=1, metavar="N")
    parser.add_argument("--output-dir", type=pathlib.Path, default=HERE)
    options = parser.parse_args()
    if options.faster < 1:
        parser.error("--faster is 1 or more")
    if options.output_dir.resolve() == HERE and (options.set or options.faster != 1):
        parser.error("--set and --faster need another --output-dir: here are the rules that are committed")
    try:
        rendered = render_all(HERE / "source", options.set, options.faster)
    except Mistake as mistake:
        sys.exit(f"render.py: {mistake}")
    if options.faster != 1:
        rendered = {name: faster(text, options.faster) for name, text in rendered.items()}
    written = {options.output_dir / name: text for name, text in rendered.items()}
    if options.output_dir.resolve() == HERE:
        chart = render_all(HERE / "source", [], for_chart=True)
        written |= {CHART / f"{name}.in": text for name, text in chart.items()}
    stale = False
    for path, text in written.items():
        if options.check:
            committed = path.read_text() if path.exists() else ""
            if committed != text:
                stale = True
                sys.stdout.writelines(difflib.unified_diff(
                    committed.splitlines(True), text.splitlines(True), str(path), "what render.py writes"))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    there = [*options.output_dir.glob("gpusnoop_*.yaml"), *(CHART.glob("*") if options.output_dir.resolve() == HERE else ())]
    for path in there if options.check else ():
        if path not in written:
            stale = True
            print(f"{path}: has no source")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
