"""The rules for dashboards. Each is a function that yields what is wrong, as sentences.

Those on templates, panels and targets are grafana/dashboard-linter's, by its names; the others are
ours. tests/dashboards/lint_test.py has a dashboard that breaks each.
"""

import re

from . import dashboard as walk
from . import metrics, promql

UNITS = {"short", "none", "s", "bytes", "binBps", "ops", "percentunit", "dateTimeAsIso", "string"}
INTERVAL = "$__rate_interval"
RANGE = "$__range"
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


def template_datasource(dashboard, _):
    """There is a variable datasource for the Prometheus."""
    variable = walk.variables(dashboard).get("datasource")
    if not variable or variable.get("type") != "datasource" or variable.get("query") != "prometheus":
        yield "no variable datasource of type prometheus"
    elif variable.get("label") != "Data source":
        yield "the label of the variable datasource is not \"Data source\""


def _template_label(dashboard, name):
    variable = walk.variables(dashboard).get(name)
    if not variable:
        yield f"no variable {name}"
        return
    if variable.get("label") != name:
        yield f"the label of the variable {name} is not {name}"
    if variable.get("type") != "query" or variable.get("datasource", {}).get("uid") != "$datasource":
        yield f"the variable {name} does not ask $datasource"
    if not variable.get("multi") or not variable.get("includeAll") or variable.get("allValue") != ".+":
        yield f"the variable {name} cannot have several values, or all of them as .+"


def template_job(dashboard, _):
    """There is a variable job, of several values."""
    yield from _template_label(dashboard, "job")


def template_instance(dashboard, _):
    """There is a variable instance, of several values."""
    yield from _template_label(dashboard, "instance")


def template_cluster(dashboard, _):
    """There is a variable cluster, for those who have several; all of them are nodes without that label as well."""
    variable = walk.variables(dashboard).get("cluster")
    if not variable or variable.get("allValue") != ".*" or not variable.get("multi"):
        yield "no variable cluster of several values, all of which are .*"


def template_label_promql(dashboard, catalog):
    """Variables ask for labels that there are, of metrics that there are."""
    for name, variable in walk.variables(dashboard).items():
        if variable.get("type") != "query":
            continue
        question = variable.get("query", {}).get("query", "")
        match = re.fullmatch(r"label_values\((.*), (\w+)\)", question)
        if not match:
            yield f"the variable {name} asks no label_values(metric, label)"
            continue
        try:
            selectors = promql.read(match[1]).selectors
        except promql.NotPromql as error:
            yield f"the variable {name}: {error}"
            continue
        labels = catalog.labels(selectors[0].metric) if len(selectors) == 1 else None
        if labels is None:
            yield f"the variable {name} asks for no metric of ours"
        elif not {match[2], *selectors[0].matchers} <= labels:
            yield f"the variable {name} asks for a label that {selectors[0].metric} does not have"


def template_on_time_change_reload(dashboard, _):
    """Variables follow the time range."""
    for name, variable in walk.variables(dashboard).items():
        if variable.get("type") == "query" and variable.get("refresh") != 2:
            yield f"the variable {name} is not read again when the time range changes"


def panel_datasource(dashboard, _):
    """Panels and targets use the variable datasource."""
    for panel in walk.panels(dashboard):
        for part in (panel, *panel.get("targets", [])):
            if part.get("datasource") != {"type": "prometheus", "uid": "$datasource"}:
                yield f"{panel.get('title')!r} does not use $datasource"
                break


def panel_title_description(dashboard, _):
    """Panels have a title, their own, and a description, a sentence."""
    titles = set()
    for panel in walk.panels(dashboard):
        title = panel.get("title")
        if not title:
            yield f"panel {panel.get('id')} has no title"
        elif title in titles:
            yield f"two panels are called {title!r}"
        titles.add(title)
        if not panel.get("description", "").endswith("."):
            yield f"{title!r} has no description, or none that is a sentence"


def panel_units(dashboard, _):
    """Panels have a unit that Grafana knows, or say what their values mean."""
    for panel in walk.panels(dashboard):
        config = panel.get("fieldConfig", {})
        units = [config.get("defaults", {}).get("unit")]
        for override in config.get("overrides", []):
            units += [one["value"] for one in override["properties"] if one["id"] == "unit"]
        if not config.get("defaults", {}).get("mappings") and units[0] is None:
            yield f"{panel.get('title')!r} has no unit"
        if panel.get("type") == "table" and units[0] != "string":
            yield f"{panel.get('title')!r} would show labels that look like numbers as numbers"
        for unit in units:
            if unit is not None and unit not in UNITS:
                yield f"{panel.get('title')!r} has the unit {unit!r}, which is none of {sorted(UNITS)}"


def panel_no_targets(dashboard, _):
    """Panels ask for something."""
    for panel in walk.panels(dashboard):
        if not panel.get("targets"):
            yield f"{panel.get('title')!r} has no targets"


def target_promql(dashboard, _):
    """Queries are PromQL."""
    for panel, target in _targets(dashboard):
        try:
            if not promql.read(target.get("expr", "")).selectors:
                yield f"{panel.get('title')!r} reads no metric"
        except promql.NotPromql as error:
            yield f"{panel.get('title')!r}: {error}: {target.get('expr')}"


def target_rate_interval(dashboard, _):
    """Rates are over $__rate_interval; what is counted or grew, over that or all of the range."""
    for panel, _target, query in _queries(dashboard):
        for selector in query.selectors:
            # Which lines are shown is decided by all of the range.
            decides = selector.at_end and selector.window == RANGE
            if selector.function in ("rate", "irate") and selector.window != INTERVAL and not decides:
                yield f"{panel.get('title')!r}: {selector.function} over [{selector.window}]"
            if selector.function in ("increase", "delta", "deriv") and \
                    selector.window not in (INTERVAL, RANGE):
                yield f"{panel.get('title')!r}: {selector.function} over [{selector.window}]"


def _target_label(dashboard, catalog, label):
    for panel, _target, query in _queries(dashboard):
        for selector in query.selectors:
            is_summed_up = selector.metric in catalog.made and label not in catalog.made[selector.metric]
            if selector.metric == "ALERTS" or is_summed_up:
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
            if not re.search(r"\) *\n? *and on \(", target.get("expr", "")):
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


def uneditable_dashboard(dashboard, _):
    """Who wants to change it saves a copy."""
    if dashboard.get("editable") is not False:
        yield "editable is not false"


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
            labels = query.grouped_by or set().union(
                *(catalog.labels(selector.metric) or set() for selector in query.selectors))
            shown |= labels | {f"Value #{target.get('refId')}"}
            for label in set(re.findall(r"{{\s*(\w+)\s*}}", target.get("legendFormat", ""))) - labels:
                yield f"{panel.get('title')!r} shows {{{{{label}}}}}, which the result does not have"
        for transformation in panel.get("transformations", []):
            if transformation["id"] == "organize" and readable:
                several = len(panel["targets"]) > 1
                for field in transformation["options"]["indexByName"]:
                    if field not in shown or (field == "Value" and several):
                        yield f"{panel.get('title')!r} has a column {field!r} that is nothing"


def layout(dashboard, _):
    """Panels have numbers and places of their own within the 24 columns."""
    rows = [panel for panel in dashboard.get("panels", []) if panel.get("type") == "row"]
    numbers = [panel.get("id") for panel in (*rows, *walk.panels(dashboard))]
    if len(set(numbers)) != len(numbers):
        yield "two panels have one number"
    taken = {}
    for panel in dashboard.get("panels", []):
        place = panel.get("gridPos", {"x": 0, "y": 0, "w": 0, "h": 0})
        if place["w"] < 1 or place["h"] < 1 or place["x"] + place["w"] > 24:
            yield f"{panel.get('title')!r} does not fit into 24 columns"
        for column in range(place["x"], place["x"] + place["w"]):
            for line in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((column, line), panel)
                if other is not panel:
                    yield f"{panel.get('title')!r} lies over {other.get('title')!r}"
                    return


def conventions(dashboard, _):
    """What people expect of a dashboard that they import."""
    if dashboard.get("id") is not None:
        yield "id is not null: it is one Grafana's own number"
    if not re.fullmatch(r"gpusnoop-[a-z-]{1,31}", dashboard.get("uid") or ""):
        yield "the uid is not gpusnoop- and a few small letters"
    if not 36 <= dashboard.get("schemaVersion", 0) <= 41:
        yield "the schemaVersion is not one of Grafana 10 and 11"
    if "gpusnoop" not in dashboard.get("tags", []):
        yield "there is no tag gpusnoop"
    if not dashboard.get("description"):
        yield "there is no description"
    if dashboard.get("graphTooltip") != 1 or dashboard.get("timezone") != "" or \
            not dashboard.get("refresh"):
        yield "the crosshair is not shared, the time zone not the reader's, or there is no refresh"
    if not any(link.get("type") == "dashboards" and link.get("tags") == ["gpusnoop"] and
               link.get("includeVars") and link.get("keepTime") for link in dashboard.get("links", [])):
        yield "there is no link to the other dashboards that keeps variables and time"
    annotations = dashboard.get("annotations", {}).get("list", [])
    if not any(one.get("builtIn") for one in annotations) or \
            not any("ALERTS" in one.get("expr", "") for one in annotations):
        yield "there are no annotations of Grafana's own and of alerts"


def data_links(dashboard, catalog):
    """Links lead to dashboards of ours, with variables that these have."""
    text = str(dashboard)
    for uid, rest in re.findall(r"/d/([\w-]+)\?([^'\"]*)", text):
        target = catalog.dashboards.get(uid)
        if not target:
            yield f"a link leads to {uid}, which is no dashboard of ours"
            continue
        named = re.findall(r"var-(\w+)=|\$\{(\w+):queryparam\}", rest)
        for variable in {one or other for one, other in named} - walk.variables(target).keys():
            yield f"a link to {uid} sets {variable}, which it does not have"


ALL = {
    "template-datasource": template_datasource,
    "template-job": template_job,
    "template-instance": template_instance,
    "template-cluster": template_cluster,
    "template-label-promql": template_label_promql,
    "template-on-time-change-reload": template_on_time_change_reload,
    "panel-datasource": panel_datasource,
    "panel-title-description": panel_title_description,
    "panel-units": panel_units,
    "panel-no-targets": panel_no_targets,
    "target-promql": target_promql,
    "target-rate-interval": target_rate_interval,
    "target-cluster": target_cluster,
    "target-job": target_job,
    "target-instance": target_instance,
    "joins-cluster": joins_cluster,
    "programs-apart": programs_apart,
    "steady-lines": steady_lines,
    "bounded-tables": bounded_tables,
    "nothing-is-said": nothing_is_said,
    "target-counter-agg": target_counter_agg,
    "uneditable-dashboard": uneditable_dashboard,
    "metric-exists": metric_exists,
    "legend-labels": legend_labels,
    "layout": layout,
    "conventions": conventions,
    "data-links": data_links,
}
