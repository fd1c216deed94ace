#!/usr/bin/env python3
"""For the pictures: what a Prometheus on the folder of backfill.py answers to each query of each dashboard, as JSON.

answers.py --end 1700000000 FOLDER >answers.json
"""

import argparse
import json
import math
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

# pylint: disable=wrong-import-position
import query
from checks import prometheus
from fleet.backfill import TOOLS
from fleet.server import Server

# What is chosen where a dashboard is of one node or one program.
CHOSEN = {"gpusnoop-node": {"instance": "gpu-b06:19435"}}


def written(series, times):
    """Of an answer, what JSON can hold: a value that is no number is null, as is one that is missing."""
    def filled(points):
        values = dict(points)
        return [[time, values[time] if math.isfinite(values.get(time, math.nan)) else None] for time in times or values]
    return [{"labels": labels, "points": filled(points)} for labels, points in series]


def all_answers(dashboards, asker):
    """The series of each panel's queries, by dashboard and number of the panel."""
    found = {"from": asker.start, "to": asker.end, "chosen": CHOSEN, "dashboards": {}}
    for dashboard in dashboards:
        uid = dashboard["uid"]
        of_panels = found["dashboards"].setdefault(uid, {})
        for panel, target, answer in query.answers(dashboard, asker, CHOSEN.get(uid)):
            if isinstance(answer, prometheus.Refused):
                raise answer
            times = () if target["instant"] else range(asker.start, asker.end + 1, asker.step)
            of_panels.setdefault(str(panel["id"]), {})[target["refId"]] = written(answer, times)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--end", type=int, required=True, metavar="SECONDS")
    parser.add_argument("--hours", type=float, default=5.5, help="less than the fleet has: growth is since before the first")
    parser.add_argument("--step", type=int, default=30, help="seconds between scrapes")
    parser.add_argument("--tools", type=pathlib.Path, default=TOOLS, help="the folder of prometheus")
    arguments = parser.parse_args()
    dashboards = [json.loads(path.read_text(encoding="utf-8"))
                  for path in sorted((HERE.parent / "grafana").glob("*.json"))]
    with Server(arguments.tools, arguments.folder) as source:
        asker = query.Asker(source, int(arguments.hours * 3600), f"{4 * arguments.step}s", arguments.end, points=360)
        json.dump(all_answers(dashboards, asker), sys.stdout)


if __name__ == "__main__":
    main()
