"""The rules for dashboards. Each is a function that yields what is wrong, as sentences.

Those on templates, panels and targets are grafana/dashboard-linter's, by its names; the others are
ours. tests/dashboards/lint_test.py has a dashboard that breaks each.
"""

import re

from . import dashboard as walk
from . import promql, query_rules

UNITS = {"short", "none", "s", "bytes", "binBps", "count:/s", "count:/min", "percentunit", "dateTimeAsIso",
         "dateTimeAsIsoNoDateIfToday", "string"}


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


def off_by_default(dashboard, catalog):
    """A panel that is empty by default says so."""
    for panel in walk.panels(dashboard):
        description = panel.get("description", "")
        for target in panel.get("targets", []):
            try:
                selectors = promql.read(target.get("expr", "")).selectors
            except promql.NotPromql:
                continue
            families = (catalog.family(selector.metric) for selector in selectors)
            for family in {one.name for one in families if one and one.is_off}:
                if "off by default" not in description or family not in description:
                    yield f"{panel.get('title')!r} asks for {family} and does not say that it is off by default"


def uneditable_dashboard(dashboard, _):
    """Who wants to change it saves a copy."""
    if dashboard.get("editable") is not False:
        yield "editable is not false"


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
    "target-promql": query_rules.target_promql,
    "target-rate-interval": query_rules.target_rate_interval,
    "target-cluster": query_rules.target_cluster,
    "target-job": query_rules.target_job,
    "target-instance": query_rules.target_instance,
    "joins-cluster": query_rules.joins_cluster,
    "programs-apart": query_rules.programs_apart,
    "steady-lines": query_rules.steady_lines,
    "bounded-tables": query_rules.bounded_tables,
    "nothing-is-said": query_rules.nothing_is_said,
    "target-counter-agg": query_rules.target_counter_agg,
    "off-by-default": off_by_default,
    "uneditable-dashboard": uneditable_dashboard,
    "metric-exists": query_rules.metric_exists,
    "legend-labels": query_rules.legend_labels,
    "layout": layout,
    "conventions": conventions,
    "data-links": data_links,
}
