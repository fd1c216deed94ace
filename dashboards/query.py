#!/usr/bin/env python3
"""Asks a Prometheus every query of every panel, as Grafana would with all values of the variables
chosen, and demands data of each, but of those in no_data.json, each of which has a reason there. A
listed query that does return data is a mistake as well.

query.py --prometheus http://localhost:9090     exit code 1, and a line for each mistake
"""

import argparse
import json
import math
import pathlib
import re
import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from checks import dashboard as walk
from checks import prometheus

HERE = pathlib.Path(__file__).resolve().parent
# Variables of labels that none of the series may have.
OPTIONAL = {"cluster", "namespace", "pod", "slurm_job_id", "container_id"}


class Asker:
    """A time range of a Prometheus, as a dashboard has one chosen."""

    def __init__(self, source, seconds, rate_interval, end=None, points=120):
        self.source = source
        self.end = source.now() if end is None else end
        self.start = self.end - seconds
        self.step = max(1, seconds // points)
        self.built_in = {"__rate_interval": rate_interval, "__interval": f"{self.step}s",
                         "__range": f"{seconds}s", "__range_s": str(seconds)}

    def variables(self, dashboard, chosen=None):
        """Each variable's values, in the order of the dashboard: later ones depend on earlier ones. `chosen`: of
        some, the one value. Raises LookupError for one that has none."""
        values = dict(self.built_in)
        for name, variable in walk.variables(dashboard).items():
            if variable["type"] != "query":
                continue
            selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)",
                                           variable["query"]["query"]).groups()
            found = self.source.label_values(walk.substituted(selector, values), label, self.start,
                                             self.end)
            # Series without the label are among all of them, and there may be no other.
            everything = variable.get("allValue") == ".*"
            if not found and not (everything and name in OPTIONAL):
                raise LookupError(f"the variable {name} has no values")
            if name in (chosen or {}):
                values[name] = prometheus.chosen([chosen[name]])
            else:
                values[name] = ".*" if everything else prometheus.chosen(found)
        return values

    def ask(self, target, values):
        expression = walk.substituted(target["expr"], values)
        if target["instant"]:
            return self.source.instant(expression, self.end)
        return self.source.over(expression, self.start, self.end, self.step)


def answers(dashboard, asker, chosen=None):
    """Panel, target, and the series or the Refused of each query."""
    values = asker.variables(dashboard, chosen)
    for panel in walk.panels(dashboard):
        for target in panel["targets"]:
            try:
                yield panel, target, asker.ask(target, values)
            except prometheus.Refused as error:
                yield panel, target, error


def on_this_machine(listed):
    """The list without the entries whose `unless` is a path that exists: their panels must have data here."""
    return {uid: {entry: what if isinstance(what, str) else what["reason"] for entry, what in entries.items()
                  if isinstance(what, str) or not pathlib.Path(what["unless"]).exists()}
            for uid, entries in listed.items()}


def check(dashboards, asker, listed):
    """What is wrong, as sentences. `listed`: {dashboard: {panel or "panel / query": reason}}."""
    unused = {(uid, entry) for uid, entries in listed.items() for entry in entries}
    for uid, entries in listed.items():
        for entry, reason in entries.items():
            if not reason.strip():
                yield f"no_data.json gives no reason for {uid}: {entry!r}"
    for dashboard in dashboards:
        uid = dashboard["uid"]
        try:
            every = list(answers(dashboard, asker))
        except LookupError as error:
            yield f"{uid}: {error}"
            continue
        for panel, target, answer in every:
            place = f"{uid}: {panel['title']!r}, query {target['refId']}"
            entries = {(uid, panel["title"]), (uid, f"{panel['title']} / {target['refId']}")}
            is_listed = any(entry in listed.get(uid, {}) for _, entry in entries)
            unused -= entries
            if isinstance(answer, prometheus.Refused):
                yield f"{place}: Prometheus refuses it: {answer}: {target['expr']}"
            elif prometheus.has_data(answer) and is_listed:
                yield f"{place} returns data, but is listed in no_data.json"
            elif not prometheus.has_data(answer) and not is_listed:
                yield f"{place} returns no data: {target['expr']}"
    for uid, entry in sorted(unused):
        yield f"no_data.json lists {uid}: {entry!r}, which there is not"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prometheus", required=True, metavar="URL")
    parser.add_argument("--range", type=int, default=3600, metavar="SECONDS")
    parser.add_argument("--end", type=int, metavar="SECONDS", help="of the range, since 1970; now by default")
    parser.add_argument("--rate-interval", default="2m", help="four scrape intervals or more")
    parser.add_argument("--no-data", type=pathlib.Path, default=HERE / "no_data.json")
    arguments = parser.parse_args()
    dashboards = [json.loads(path.read_text(encoding="utf-8"))
                  for path in sorted((HERE / "grafana").glob("*.json"))]
    listed = on_this_machine(json.loads(arguments.no_data.read_text(encoding="utf-8")))
    asker = Asker(prometheus.Prometheus(arguments.prometheus), arguments.range,
                  arguments.rate_interval, arguments.end)
    complaints = list(check(dashboards, asker, listed))
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    queries = sum(len(panel["targets"]) for one in dashboards for panel in walk.panels(one))
    print(f"{len(dashboards)} dashboards, {queries} queries, "
          f"{sum(map(len, listed.values()))} listed without data, {len(complaints)} mistakes")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
