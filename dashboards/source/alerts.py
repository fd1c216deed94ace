"""Firing alerts as tiles and as tables. Both are of the same alerts, so that their numbers agree; those of severity info
are in no tile, and in a table of their own."""

import pathlib
import re

from .common import ERROR_COLORS, FIRING, RUNBOOKS, WARNING_COLORS, node_columns
from .model import address
from .panels import Column, stat, table, thresholds
from .promql import PROGRAM_NAME, count, named, top, zero

CRITICAL, WARNING, INFO = 'severity="critical"', 'severity="warning"', 'severity!~"critical|warning"'
ACT = 'severity=~"critical|warning"'
_SEVERITY_MAPPING = [{"type": "value", "options": {
    "3": {"text": "critical", "color": "red", "index": 0},
    "2": {"text": "warning", "color": "orange", "index": 1},
    "1": {"text": "info", "color": "text", "index": 2},
}}]
_SEVERITY_COLORS = thresholds("text", 2, "orange", 3, "red")
# What an alert is about, in this order.
_SUBJECT = ("program", "slurm_job_id", "pid", "gpu", "rank", "library", "function", "error", "xid", "sxid",
            "device", "direction", "role", "cause", "cgroup", "peer", "probe", "reason", "metric", "sink", "pod")
_NAMED = {"slurm_job_id": "job", "gpu": "GPU", "pid": "pid", "rank": "rank", "xid": "Xid", "sxid": "SXid"}


def _summaries():
    """The annotation of each alert, which the series ALERTS does not have."""
    rules = pathlib.Path(__file__).resolve().parents[1] / "rules" / "source"
    found = {}
    for path in sorted(rules.glob("*.yaml")):
        for block in path.read_text("utf-8").split("- alert: ")[1:]:
            if summary := re.search(r"^ +summary: \"?(.+?)\"?$", block, re.M):
                found.setdefault(block.split("\n", 1)[0], summary[1])
    return found


def firing(*matchers):
    return FIRING.replace("}", "".join(f", {one}" for one in matchers) + "}")


def critical(**options):
    return stat("Critical alerts", "Firing alerts of severity critical. They are listed below.", "short",
                zero(f"count({firing(CRITICAL)})"), colors=ERROR_COLORS, **options)


def warnings(**options):
    return stat("Warnings", "Firing alerts of severity warning. They are listed below.", "short",
                zero(f"count({firing(WARNING)})"), colors=WARNING_COLORS, **options)


def of_nodes(*matchers):
    """How many alerts fire for each node."""
    return count("instance", firing('instance!=""', *matchers))


def _described(expression):
    """With three more labels: what the alert is about, its name without the prefix that all have, and its name once more,
    which the table shows as its summary."""
    for label, name in _NAMED.items():
        expression = f'label_replace({expression}, "{label}", "{name} $1", "{label}", "(.+)")'
    expression = named(expression, PROGRAM_NAME)
    labels = ", ".join(f'"{label}"' for label in _SUBJECT)
    for label, names in (("summary", "(.+)"), ("alert", "Gpusnoop(.+)")):
        expression = f'label_replace({expression}, "{label}", "$1", "alertname", "{names}")'
    return f'label_join({expression},\n  "subject", " ", {labels})'


def listed(title, description, *, severities, nodes=None, nothing="no alert fires", **options):
    """`severities`: matchers, each with its number in the table. `nodes`: the columns that say where."""
    first = top(100, _described(" or ".join(f"{number} * {firing(matcher)}" for matcher, number in severities.items())))
    either = " or ".join(firing(matcher) for matcher in severities).replace("ALERTS{", "ALERTS_FOR_STATE{").replace(
        'alertstate="firing", ', "")
    since = f"({_described(f'1000 * ({either})')})\n  and ignoring (alertstate) ({first})"
    return table(
        title, description,
        [Column("Value #A", "severity", mappings=_SEVERITY_MAPPING, colors=_SEVERITY_COLORS, align="left"),
         Column("Value #B", "since", "dateTimeAsIsoNoDateIfToday", align="left"),
         *(node_columns() if nodes is None else nodes),
         Column("summary", "summary", width=420, mappings=[{"type": "value", "options": {
             name: {"text": text, "index": index} for index, (name, text) in enumerate(_summaries().items())}}]),
         Column("subject", "program, GPU or probe"),
         Column("alert", "alert", link=address(f"{RUNBOOKS}/Gpusnoop${{__data.fields.alert}}.md", "Runbook"))],
        first, since, sort=("severity", "since"), nothing=nothing, **options)


def to_act_on(**options):
    return listed("Firing alerts", "Critical alerts first, then warnings, the latest first. An alert's name, here "
                  "without Gpusnoop, leads to its runbook.", severities={CRITICAL: 3, WARNING: 2}, **options)
