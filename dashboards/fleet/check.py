#!/usr/bin/env python3
"""Asks every query of every dashboard of the fleet: with all values of the variables chosen, each gives data; with a
single value of one variable, none is refused, and numbers that stand alone are there. Then of two clusters whose nodes
have the same names: none is refused.

What the dashboards cannot do yet is listed in findings.json. An entry that is not needed any more is a mistake.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

# pylint: disable=wrong-import-position
import query
from checks import dashboard as walk
from checks import prometheus
from fleet.backfill import TOOLS, Backfill
from fleet.generate import Fleet
from fleet.server import Server

END, STEP = 1_700_006_400, 60
# Of one cluster, and of two.
HOURS = {1: 2, 2: 1}
SKIPPED = 4
# Of the values of a variable, so many are tried by themselves.
SINGLE = 3


class Findings:
    """What is listed in findings.json, by kind: {dashboard: {panel / query: reason}}, and what of it was met."""

    def __init__(self, path):
        self.listed = json.loads(path.read_text(encoding="utf-8"))
        self.unused = {(kind, uid, entry) for kind, dashboards in self.listed.items()
                       for uid, entries in dashboards.items() for entry in entries}
        self.mistakes = {}

    def met(self, kind, dashboard, panel, target, what):
        uid, place = dashboard["uid"], f"{panel['title']} / {target['refId']}"
        for entry in self.listed.get(kind, {}).get(uid, {}):
            if fnmatch.fnmatchcase(place, entry):
                self.unused.discard((kind, uid, entry))
                return
        self.mistakes.setdefault(f"{kind}: {uid}: {place!r}", what)

    def all(self):
        yield from (f"{place}: {what}" for place, what in self.mistakes.items())
        yield from (f"findings.json lists what is no more: {kind}: {uid}: {entry!r}"
                    for kind, uid, entry in sorted(self.unused))


class Check:
    def __init__(self, source, dashboards, findings, hours):
        self.source, self.dashboards, self.findings, self.queries = source, dashboards, findings, 0
        self.asker = query.Asker(source, hours * 3600, f"{4 * STEP}s", END)

    def everything(self, refused, empty=None):
        """With all values of all variables, over the whole time."""
        for dashboard in self.dashboards:
            for panel, target, answer in query.answers(dashboard, self.asker):
                self.queries += 1
                if isinstance(answer, prometheus.Refused):
                    self.findings.met(refused, dashboard, panel, target, str(answer))
                elif empty and not prometheus.has_data(answer):
                    self.findings.met(empty, dashboard, panel, target, "no data")

    def single(self):
        """With one value of one variable, at the end."""
        for dashboard in self.dashboards:
            every = self.asker.variables(dashboard)
            for name, values in self.values_of(dashboard, self.asker).items():
                used = [(panel, target) for panel in walk.panels(dashboard) for target in panel["targets"]
                        if f"${name}" in target["expr"] or f"${{{name}" in target["expr"]]
                for value in values:
                    chosen = {**every, name: prometheus.chosen([value])}
                    for panel, target in used:
                        self.one(dashboard, panel, target, walk.substituted(target["expr"], chosen), f"{name}={value}")

    def one(self, dashboard, panel, target, expression, chosen):
        self.queries += 1
        try:
            answer = self.source.instant(expression, END)
        except prometheus.Refused as error:
            self.findings.met("refused, one value", dashboard, panel, target, f"{chosen}: {error}")
            return
        # One that has no number says which exporter it needs; others read 0.
        is_number = panel["fieldConfig"]["defaults"].get("noValue") == "0"
        if panel["type"] == "stat" and is_number and not prometheus.has_data(answer):
            self.findings.met("no data, one value", dashboard, panel, target, f"with {chosen}")

    @staticmethod
    def values_of(dashboard, asker):
        """Of each variable, some of its values."""
        recorded = {}

        class Recorder:
            def __getattr__(self, name):
                return getattr(asker.source, name)

            def label_values(self, selector, label, start, end):
                recorded[label] = asker.source.label_values(selector, label, start, end)
                return recorded[label]

        recorder = query.Asker(Recorder(), 1, "1m", asker.end)
        recorder.start = asker.start
        recorder.variables(dashboard)
        return {label: values[::max(1, len(values) // SINGLE)][:SINGLE] for label, values in recorded.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=pathlib.Path, default=TOOLS, help="the folder of promtool and prometheus")
    parser.add_argument("--findings", type=pathlib.Path, default=HERE / "findings.json")
    arguments = parser.parse_args()
    if not os.access(arguments.tools / "prometheus", os.X_OK):
        print(f"no {arguments.tools / 'prometheus'} (scripts/setup.sh --tests)")
        return 1 if "CI" in os.environ else SKIPPED
    dashboards = [json.loads(path.read_text(encoding="utf-8"))
                  for path in sorted((HERE.parent / "grafana").glob("*.json"))]
    findings, queries = Findings(arguments.findings), 0
    for clusters in 1, 2:
        with tempfile.TemporaryDirectory() as folder:
            Backfill(arguments.tools, folder).all(Fleet(END, HOURS[clusters], STEP, clusters))
            with Server(arguments.tools, folder) as source:
                check = Check(source, dashboards, findings, HOURS[clusters])
                if clusters == 1:
                    check.everything("refused", "no data")
                    check.single()
                else:
                    check.everything("refused, two clusters")
                queries += check.queries
    mistakes = list(findings.all())
    for mistake in mistakes:
        print(mistake)
    print(f"{queries} queries, {len(mistakes)} mistakes")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
