"""Dashboards as Grafana reads them: panels in rows, and what every dashboard has around them.

Nothing in here knows a metric. The panels are those of panels.py.
"""

from .panels import DATASOURCE

SCHEMA_VERSION = 39  # Grafana 10.4 and 11
TAG = "gpusnoop"
COLUMNS = 24


def link_to(uid, title, *kept, **variables):
    """From a cell or a line to another dashboard, in the same range and on the same data source.
    `kept` variables are as they are here; the others are set, as to a label at what is clicked."""
    parts = [f"${{{name}:queryparam}}" for name in dict.fromkeys(("datasource", "cluster", "job", *kept))]
    parts += [f"var-{name}={value}" for name, value in variables.items()]
    return {"title": title, "targetBlank": False,
            "url": f"/d/{uid}?${{__url_time_range}}&{'&'.join(parts)}"}


def address(url, title):
    """From a cell to a page that is no dashboard of Grafana's."""
    return {"title": title, "targetBlank": True, "url": url}


class Row:
    def __init__(self, title, *panels, collapsed=False):
        self.title, self.panels, self.collapsed = title, panels, collapsed


def query_variable(name, label, query, description, *, everything=".+", hide=0):
    """Values of a label, any number of which can be chosen."""
    return {
        "name": name,
        "label": label,
        "description": description,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "refresh": 2,
        "sort": 1,
        "regex": "",
        "hide": hide,
        "multi": True,
        "includeAll": True,
        "allValue": everything,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "options": [],
        "skipUrlSync": False,
    }


def _datasource_variable():
    return {
        "name": "datasource",
        "label": "Data source",
        "description": "The Prometheus that scrapes the exporters",
        "type": "datasource",
        "query": "prometheus",
        "regex": "",
        "refresh": 1,
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "current": {},
        "options": [],
        "skipUrlSync": False,
    }


def annotation(name, expression, color, *, title, text, tags, by_value=False):
    return {
        "name": name,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "datasource": DATASOURCE,
        "expr": expression,
        "step": "60s",
        "titleFormat": title,
        "textFormat": text,
        "tagKeys": tags,
        "useValueForTime": by_value,
        "target": {"expr": expression, "refId": "Anno"},
        "mappings": {},
        "filter": {"exclude": False, "ids": []},
        "builtIn": 0,
        "type": "dashboard",
    }


BUILT_IN = {
    "builtIn": 1,
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
    "name": "Annotations & Alerts",
    "type": "dashboard",
}


def _place(panels, top):
    """From left to right and from top to bottom; the line below the last one."""
    column = line_height = 0
    for panel in panels:
        width, height = panel["gridPos"]["w"], panel["gridPos"]["h"]
        if column + width > COLUMNS:
            top += line_height
            column = line_height = 0
        panel["gridPos"] = {"x": column, "y": top, "w": width, "h": height}
        column += width
        line_height = max(line_height, height)
    return top + line_height


def dashboard(uid, title, description, rows, *, variables, annotations, tags=()):
    panels, top, number = [], 0, 0
    for row in rows:
        bar = {"type": "row", "title": row.title, "collapsed": row.collapsed, "panels": [],
               "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1}}
        below = _place(row.panels, top + 1)
        panels.append(bar)
        # The panels of a collapsed row are inside it, and take no room until it is opened.
        if row.collapsed:
            bar["panels"] = list(row.panels)
            top += 1
        else:
            panels += row.panels
            top = below
        for panel in (bar, *row.panels):
            number += 1
            panel["id"] = number
    return {
        "id": None,
        "uid": uid,
        "title": title,
        "description": description,
        "tags": [TAG, *tags],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "timezone": "",
        "weekStart": "",
        "fiscalYearStartMonth": 0,
        "liveNow": False,
        "links": [{
            "type": "dashboards",
            "title": "gpusnoop",
            "tags": [TAG],
            "asDropdown": True,
            "includeVars": True,
            "keepTime": True,
            "targetBlank": False,
            "icon": "external link",
            "tooltip": "",
            "url": "",
        }],
        "annotations": {"list": [BUILT_IN, *annotations]},
        "templating": {"list": [_datasource_variable(), *variables]},
        "panels": panels,
    }
