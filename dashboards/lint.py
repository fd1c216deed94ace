#!/usr/bin/env python3
"""Checks the dashboards: the rules of checks/rules.py for each, and for all of them together that
every family of the exporter is shown in one, or listed with a reason in unshown.json.

lint.py [--promtool PROGRAM] [--directory DASHBOARDS]     exit code 1, and a line for each mistake
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from checks import dashboard as walk
from checks import promql, rules
from checks.metrics import Catalog

HERE = pathlib.Path(__file__).resolve().parent
# What variables are replaced by where only the form of a query matters.
ANY_VALUES = {"cluster": ".*", "job": ".+", "instance": ".+", "comm": ".*", "library": ".*", "function": ".*",
              "slurm_job_id": ".*", "container_id": ".*", "gpu": ".*", "namespace": ".*", "pod": ".*",
              "__rate_interval": "5m", "__range": "1h", "__range_s": "3600", "__interval": "1m"}


class Known(Catalog):
    """Metrics and dashboards that a dashboard may refer to."""

    def __init__(self, documented, pending, dashboards):
        super().__init__(documented + pending)
        self.documented = Catalog(documented).families
        self.pending = Catalog(pending).families
        self.dashboards = {one.get("uid"): one for one in dashboards.values()}


def expressions(dashboard):
    """Every query that a dashboard makes, with its place."""
    for panel in walk.panels(dashboard):
        for target in panel.get("targets", []):
            yield f"{panel.get('title')!r}", target.get("expr", "")
    for annotation in dashboard.get("annotations", {}).get("list", []):
        if "expr" in annotation:
            yield f"annotation {annotation['name']!r}", annotation["expr"]


def one_dashboard(dashboard, known):
    """The rules' complaints, each with the rule's name."""
    for name, rule in rules.ALL.items():
        for complaint in rule(dashboard, known):
            yield f"{name}: {complaint}"


def shown_families(dashboards, known):
    shown = set()
    for dashboard in dashboards.values():
        for _, expression in expressions(dashboard):
            try:
                selectors = promql.read(expression).selectors
            except promql.NotPromql:
                continue
            families = (known.family(selector.metric) for selector in selectors)
            shown |= {family.name for family in families if family}
    return shown


def all_dashboards(dashboards, known, unshown):
    """What is wrong with all of them together, and with the lists."""
    for name, dashboard in dashboards.items():
        if name != f"{dashboard.get('uid')}.json":
            yield f"file-name: {name} has the uid {dashboard.get('uid')}"
    shown = shown_families(dashboards, known)
    for family in sorted(known.documented.keys() - shown - unshown.keys()):
        yield f"family-shown: {family} is in no dashboard, and not in unshown.json"
    for family, reason in unshown.items():
        if family not in known.documented or family in shown:
            yield f"family-shown: unshown.json lists {family}, which is shown or does not exist"
        if not reason.strip():
            yield f"family-shown: unshown.json has no reason for {family}"
    for family in sorted(known.pending.keys() & known.documented.keys()):
        yield f"pending: docs/metrics.md has {family} now: take it out of pending_metrics.md"


def promtool_complaints(dashboards, promtool):
    """What the real parser says: each query as the expression of a rule."""
    places, lines = [], ["groups:", "- name: queries", "  rules:"]
    for name, dashboard in dashboards.items():
        for place, expression in expressions(dashboard):
            places.append(f"{name}: promtool: {place}")
            query = walk.substituted(expression, ANY_VALUES)
            lines += [f"  - record: query:{len(places) - 1}",
                      f"    expr: {json.dumps(query, ensure_ascii=False)}"]
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "queries.yaml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        done = subprocess.run([promtool, "check", "rules", "--lint=none", path], check=False,
                              capture_output=True, text=True)
    if done.returncode == 0:
        return
    for line in (done.stdout + done.stderr).splitlines():
        if '"query:' in line:
            place = places[int(line.split('"query:')[1].split('"')[0])]
            yield f"{place}: {line.split('could not parse expression: ')[-1]}"
        elif line.strip() and not line.strip().endswith(("FAILED:", "SUCCESS")) and \
                not line.startswith("Checking"):
            yield f"promtool: {line.strip()}"


def rules_without_data(known, rules_directory):
    """Rules need no family that is off by default."""
    off = {family.name for family in known.documented.values() if family.is_off}
    for path in sorted(rules_directory.glob("gpusnoop_*.yaml")):
        for series in sorted(set(re.findall(r"\bgpusnoop_\w+", path.read_text(encoding="utf-8")))):
            family = known.family(series)
            if family and family.name in off:
                yield f"{path.name}: off-by-default: {family.name} is off by default"


def too_large(directory):
    """Whether one ConfigMap, of at most 1 MiB, can hold all of them."""
    size = sum(path.stat().st_size for path in directory.glob("*.json"))
    if size > 2**20 - 2**14:
        yield f"size: the dashboards have {size} bytes, too many for a ConfigMap"


def lint(directory, promtool=None, documented=HERE.parent / "docs" / "metrics.md",
         pending=HERE / "pending_metrics.md", unshown=HERE / "unshown.json", rules_directory=HERE / "rules"):
    """All complaints about a directory of dashboards."""
    dashboards = {path.name: json.loads(path.read_text(encoding="utf-8"))
                  for path in sorted(directory.glob("*.json"))}
    if not dashboards:
        return [f"{directory} has no dashboards"]
    known = Known(documented.read_text(encoding="utf-8"),
                  pending.read_text(encoding="utf-8") if pending.exists() else "", dashboards)
    complaints = [f"{name}: {complaint}" for name, dashboard in dashboards.items()
                  for complaint in one_dashboard(dashboard, known)]
    complaints += all_dashboards(dashboards, known, json.loads(unshown.read_text(encoding="utf-8")))
    complaints += too_large(directory)
    complaints += rules_without_data(known, rules_directory)
    if promtool:
        complaints += promtool_complaints(dashboards, promtool)
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--promtool", help="also has this program parse every query")
    parser.add_argument("--directory", type=pathlib.Path, default=HERE / "grafana")
    arguments = parser.parse_args()
    if arguments.promtool and not pathlib.Path(arguments.promtool).exists():
        print(f"{arguments.promtool} is not there: scripts/setup.sh --tests fetches it", file=sys.stderr)
        return 1
    complaints = lint(arguments.directory, arguments.promtool)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
