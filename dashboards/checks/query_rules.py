"""The rules for what panels ask: each a function that yields what is wrong, as sentences (rules.py has all rules)."""

import re

from . import dashboard as walk
from . import metrics, promql

INTERVAL = "$__rate_interval"
RANGE = "$__range"
NUMBERS = "5m"
BUILT_IN_FIELDS = {"Value", "Time"}


def _targets(dashboard):
    for panel in walk.panels(dashboard):
        for target in panel.get("targets", []):
            yield panel, target


def _queries(dashboard):
    """Each panel's targets as read queries; those that cannot be read are target-promql's."""
    for panel, target in _targets(dashboard):
        try:
            yield panel, target, promql.read(target.get("expr", ""))
        except promql.NotPromql:
            pass


def target_promql(dashboard, _):
    """Queries are PromQL."""
    for panel, target in _targets(dashboard):
        try:
            if not promql.read(target.get("expr", "")).selectors:
                yield f"{panel.get('title')!r} reads no metric"
        except promql.NotPromql as error:
            yield f"{panel.get('title')!r}: {error}: {target.get('expr')}"


def target_rate_interval(dashboard, _):
    """Rates are over $__rate_interval, in numbers and tables over 5m, whatever their panel's width; what is counted or
    grew, over that or all of the range."""
    for panel, target, query in _queries(dashboard):
        window = NUMBERS if target.get("instant") else INTERVAL
        for selector in query.selectors:
            # Which lines are shown is decided by all of the range.
            decides = selector.at_end and selector.window == RANGE
            if selector.function in ("rate", "irate") and selector.window != window and not decides:
                yield f"{panel.get('title')!r}: {selector.function} over [{selector.window}]"
            if selector.function in ("increase", "delta", "deriv") and \
                    selector.window not in (INTERVAL, RANGE):
                yield f"{panel.get('title')!r}: {selector.function} over [{selector.window}]"


def _target_label(dashboard, catalog, label):
    for panel, _target, query in _queries(dashboard):
        for selector in query.selectors:
            is_summed_up = selector.metric in catalog.made and label not in catalog.made[selector.metric]
            if selector.metric.startswith("ALERTS") or is_summed_up:
                continue
            if selector.metric not in metrics.JOINED and \
                    selector.matchers.get(label) != ("=~", f"${label}"):
                yield f"{panel.get('title')!r} reads {selector.metric} of every {label}"


def target_cluster(dashboard, catalog):
    """Every selector has cluster=~"$cluster"."""
    yield from _target_label(dashboard, catalog, "cluster")


def target_job(dashboard, catalog):
    """Every selector has job=~"$job"."""
    yield from _target_label(dashboard, catalog, "job")


def target_instance(dashboard, catalog):
    """Every selector has instance=~"$instance"."""
    yield from _target_label(dashboard, catalog, "instance")


def joins_cluster(dashboard, _):
    """What is joined or compared by node is joined by its cluster too: two clusters may have nodes of one name."""
    for panel, _target, query in _queries(dashboard):
        for labels in query.matched_on:
            if "instance" in labels and not {"cluster", "job"} <= labels:
                yield f"{panel.get('title')!r} matches nodes without their cluster: on ({', '.join(sorted(labels))})"


def programs_apart(dashboard, _):
    """Two jobs of an interpreter are two lines: what is shown by comm is shown by script and Slurm job as well."""
    for panel, _target, query in _queries(dashboard):
        if "comm" in query.grouped_by and not {"script", "slurm_job_id"} <= query.grouped_by:
            yield f"{panel.get('title')!r} has one line for all scripts of an interpreter"


def steady_lines(dashboard, _):
    """The lines of a graph are the same over all of it: topk at the range's end."""
    for panel, target, query in _queries(dashboard):
        if panel.get("type") == "timeseries" and "topk" in target.get("expr", "") and \
                not any(selector.at_end for selector in query.selectors):
            yield f"{panel.get('title')!r} has other lines at each step: topk without @ end()"


def bounded_tables(dashboard, _):
    """A table has the lines of its first query, which are not those of a whole fleet: Grafana shows all of each query."""
    for panel in walk.panels(dashboard):
        targets = panel.get("targets", []) if panel.get("type") == "table" else []
        if targets and not re.search(r"topk|bottomk|^count by", targets[0].get("expr", "")):
            yield f"{panel.get('title')!r} can have as many lines as there are nodes"
        for target in targets[1:]:
            if not re.search(r"\) *\n? *and (on|ignoring) \(", target.get("expr", "")):
                yield f"{panel.get('title')!r}: query {target.get('refId')} adds lines to those of the first"


def nothing_is_said(dashboard, _):
    """Where there is nothing, a panel says so in words or as 0."""
    for panel in walk.panels(dashboard):
        if not panel.get("fieldConfig", {}).get("defaults", {}).get("noValue"):
            yield f"{panel.get('title')!r} has no noValue"


def target_counter_agg(dashboard, catalog):
    """Counters are read through rate, irate and increase, and nothing else is."""
    for panel, _target, query in _queries(dashboard):
        for selector in query.selectors:
            rated = selector.function in ("rate", "irate", "increase")
            # What a counter has grown by, its first value included, asks whether there was one.
            asks = any(one.metric == selector.metric and one.function == "last_over_time" for one in query.selectors)
            if catalog.is_counter(selector.metric) and not rated and not asks:
                yield f"{panel.get('title')!r} reads the counter {selector.metric} without rate"
            elif rated and catalog.family(selector.metric) and \
                    not catalog.is_counter(selector.metric):
                yield f"{panel.get('title')!r}: {selector.function} of the gauge {selector.metric}"


def metric_exists(dashboard, catalog):
    """Queries read metrics that there are, by labels that these have."""
    for panel, _target, query in _queries(dashboard):
        known, all_known = set(query.replaced), True
        for selector in query.selectors:
            labels = catalog.labels(selector.metric)
            if labels is None:
                all_known = False
                yield f"{panel.get('title')!r} reads {selector.metric}, which does not exist"
                continue
            known |= labels
            for label in selector.matchers.keys() - labels:
                yield f"{panel.get('title')!r}: {selector.metric} has no label {label}"
        if all_known:
            for label in (query.grouped_by | query.other_labels) - known:
                yield f"{panel.get('title')!r} groups by {label}, which none of its metrics has"


def legend_labels(dashboard, catalog):
    """Legends and columns show labels that the result has."""
    for panel in walk.panels(dashboard):
        shown = set(BUILT_IN_FIELDS)
        readable = True
        for target in panel.get("targets", []):
            try:
                query = promql.read(target.get("expr", ""))
            except promql.NotPromql:
                readable = False
                continue
            labels = query.replaced | (query.grouped_by or set().union(
                *(catalog.labels(selector.metric) or set() for selector in query.selectors)))
            shown |= labels | {f"Value #{target.get('refId')}"}
            for label in set(re.findall(r"{{\s*(\w+)\s*}}", target.get("legendFormat", ""))) - labels:
                yield f"{panel.get('title')!r} shows {{{{{label}}}}}, which the result does not have"
        for transformation in panel.get("transformations", []):
            if transformation["id"] == "organize" and readable:
                several = len(panel["targets"]) > 1
                for field in transformation["options"]["indexByName"]:
                    if field not in shown or (field == "Value" and several):
                        yield f"{panel.get('title')!r} has a column {field!r} that is nothing"
