"""Panels as Grafana reads them: graphs, numbers, heatmaps and tables.

Nothing in here knows a metric. A panel is a dictionary of Grafana's; its place and its number are given when the
dashboard is put together (model.py).
"""

import re

DATASOURCE = {"type": "prometheus", "uid": "$datasource"}

# Units of Grafana, after a number of what the title names.
EACH_SECOND, EACH_MINUTE = "count:/s", "count:/min"
# Rates in numbers and tables are over this, as in the recording rules and the alerts. $__rate_interval depends on a
# panel's width: the same number would differ between dashboards.
NUMBERS_OVER = "5m"
_BYTES = ("bytes", "binBps")


def _targets(queries, *, instant=False, form="time_series", exemplars=False):
    """queries: PromQL, or pairs of PromQL and legend."""
    targets = []
    for index, query in enumerate(queries):
        expression, legend = (query, "") if isinstance(query, str) else query
        if instant:
            expression = expression.replace("$__rate_interval", NUMBERS_OVER)
        targets.append({
            "datasource": DATASOURCE,
            "editorMode": "code",
            "exemplar": exemplars,
            "expr": expression,
            "format": form,
            "instant": instant,
            "legendFormat": legend or "__auto",
            "range": not instant,
            "refId": chr(ord("A") + index),
        })
    return targets


def _panel(kind, title, description, queries, *, unit, width, height, options, defaults=None,
           overrides=None, links=None, instant=False, form="time_series", transformations=None, nothing="none",
           exemplars=False):
    """`nothing`: what is read where there is no data."""
    field = {
        "color": {"mode": "palette-classic"},
        "mappings": [],
        "noValue": nothing,
        "thresholds": {"mode": "absolute", "steps": [{"color": "green", "value": None}]},
        "unit": unit,
    }
    field.update(defaults or {})
    panel = {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": _targets(queries, instant=instant, form=form, exemplars=exemplars),
        "fieldConfig": {"defaults": field, "overrides": overrides or []},
        "options": options,
        "gridPos": {"w": width, "h": height},
    }
    if links:
        panel["fieldConfig"]["defaults"]["links"] = links
    if transformations:
        panel["transformations"] = transformations
    return panel


def thresholds(*steps):
    """steps: colors, and between them the values from which the next one holds."""
    colors, values = steps[::2], (None,) + steps[1::2]
    return {"mode": "absolute",
            "steps": [{"color": color, "value": value} for color, value in zip(colors, values)]}


# What a name in a legend means has one color everywhere. Red is for errors alone.
_COLORS = {
    "h2d( sync)?": "blue", "h2d async": "light-blue", "d2h( sync)?": "purple", "d2h async": "light-purple",
    "d2d( sync)?": "green", "d2d async": "light-green", "h2h( sync)?": "yellow", "h2h async": "light-yellow",
    "device": "blue", "async": "light-blue", "managed": "purple", "vmm": "green", "pinned_host": "yellow",
    "older than 1m": "light-blue", "older than 10m": "blue", "older than 1h": "dark-blue",
}


def _fixed_colors():
    return [{"matcher": {"id": "byRegexp", "options": f"/^\\s*{name}\\s*$/"},
             "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}]}
            for name, color in _COLORS.items()]


def timeseries(title, description, unit, *queries, width=12, height=8, stack=False, minimum=0,
               logarithmic=False, points=False, links=None, shade=None, alarm=None, nothing="none in this range",
               exemplars=False):
    """`shade`: the color that all lines have shades of: red for errors, orange for possible ones. `alarm`: the color of
    lines that leave 0; the others, which are most of the time all of them, have none and are not named."""
    # Areas hide each other, but where there is one line, or where they lie on one another.
    single = len(queries) == 1 and (isinstance(queries[0], str) or "{{" not in queries[0][1])
    custom = {
        "drawStyle": "points" if points else "line",
        "fillOpacity": 30 if stack else 10 if single and not logarithmic else 0,
        "lineWidth": 1,
        "showPoints": "auto",
        # Durations and bandwidths are only there while there are calls: in milliseconds.
        "spanNulls": 900000 if logarithmic else False,
        "stacking": {"group": "A", "mode": "normal" if stack else "none"},
    }
    if logarithmic:
        custom["scaleDistribution"] = {"type": "log", "log": 2 if unit in _BYTES else 10}
    if unit == "percentunit":
        custom["axisSoftMax"] = 0.01  # or an axis of nothing but zeros goes to 10000%
    defaults = {"custom": custom}
    if shade:
        defaults["color"] = {"mode": "shades", "fixedColor": shade}
    if alarm:
        defaults["color"] = {"mode": "thresholds", "seriesBy": "max"}
        defaults["thresholds"] = thresholds(_NO_ALARM, 1e-9, alarm)
        custom.setdefault("axisSoftMax", 1)
    if minimum is not None and not logarithmic:
        defaults["min"] = minimum
    return _panel(
        "timeseries", title, description, queries, unit=unit, width=width, height=height,
        defaults=defaults, links=links, nothing=nothing,
        overrides=[_UNNAMED_IF_ZERO] if alarm else [] if shade else _used(_fixed_colors(), queries),
        exemplars=exemplars,
        options={
            "legend": {"showLegend": True, **_legend(queries, width, "max" if alarm else "lastNotNull")},
            "tooltip": {"mode": "multi", "sort": "desc"},
        })


# How many letters the values of labels have, of which a graph may have many lines.
_LETTERS = {"cluster": 7, "instance": 14, "node": 8, "program": 16, "slurm_job_id": 6, "namespace": 10, "pod": 18,
            "library": 15, "function": 33, "cause": 12, "kernel": 40, "pid": 8, "device": 13, "error": 24, "rank": 3, "timeline": 12}
_COLUMN = 57  # of a dashboard's 24, in pixels, on a small screen
_WIDEST_LEGEND = 342  # beside a graph of half the width
_NO_ALARM = "#8e8e8e"
# What is 0 all the time is a line, and no entry in the legend: of a healthy fleet, that would have nothing else.
_UNNAMED_IF_ZERO = {"matcher": {"id": "byValue", "options": {"reducer": "allIsZero", "op": "gte", "value": 0}},
                    "properties": [{"id": "custom.hideFrom", "value": {"legend": True, "tooltip": True, "viz": False}}]}


def _legend(queries, width, calculation):
    """Long names stand beside the graph, if that is wide enough, the highest value first: below it they would take half of
    its height."""
    names = [query[1] for query in queries if not isinstance(query, str)]
    labels = [re.findall(r"{{(\w+)}}", name) for name in names]
    many = any(label in _LETTERS for one in labels for label in one)
    letters = max((len(re.sub(r"{{\w+}}", "", name)) + sum(_LETTERS.get(label, 8) for label in one)
                   for name, one in zip(names, labels)), default=0)
    pixels = min(_WIDEST_LEGEND if width <= 12 else 480, 110 + 7 * letters)
    if many and 2 * pixels <= _COLUMN * width:
        return {"placement": "right", "width": pixels, "displayMode": "table", "calcs": [calculation],
                "sortBy": {"max": "Max", "lastNotNull": "Last *"}[calculation], "sortDesc": True}
    return {"placement": "bottom", "displayMode": "list", "calcs": []}


def _used(overrides, queries):
    """Colors by name where the names are those of a label that has fixed values."""
    legends = [query[1] for query in queries if not isinstance(query, str)]
    named = any(legend.strip() in ("{{direction}}", "{{direction}} {{mode}}", "{{memory_kind}}", "older than {{age}}")
                for legend in legends)
    return overrides if named else []


def stat(title, description, unit, *queries, width=4, height=3, colors=None, mappings=None,
         text="auto", links=None, trend=False, nothing="0"):
    """`trend`: with a line of the range, for which a panel must be higher."""
    # Whatever has no threshold is a number and no judgement.
    defaults = {"color": {"mode": "thresholds"},
                "thresholds": colors or thresholds("text"),
                "mappings": mappings or []}
    if trend:
        defaults["min"] = 0
    return _panel(
        "stat", title, description, queries, unit=unit, width=width, height=height, instant=not trend,
        defaults=defaults, links=links, nothing=nothing,
        options={
            "colorMode": "value", "graphMode": "area" if trend else "none", "justifyMode": "auto",
            "orientation": "auto", "textMode": text, "wideLayout": True,
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        })


def heatmap(title, description, unit, query, *, width=12, height=8, exemplars=False):
    """A histogram over time; unit is that of its buckets' bounds."""
    panel = _panel(
        "heatmap", title, description, [(query, "{{le}}")], unit=unit, width=width, height=height,
        form="heatmap", exemplars=exemplars, defaults={"custom": {"scaleDistribution": {"type": "linear"}}},
        options={
            "calculate": False,
            "cellGap": 0,
            "color": {"exponent": 0.5, "fill": "dark-orange", "mode": "scheme", "reverse": False,
                      "scale": "exponential", "scheme": "Oranges", "steps": 64},
            "exemplars": {"color": "rgba(255,0,255,0.7)"},
            "filterValues": {"le": 1e-9},
            "legend": {"show": True},
            "rowsFrame": {"layout": "auto"},
            "tooltip": {"mode": "single", "yHistogram": False},
            "yAxis": {"axisPlacement": "left", "reverse": False, "unit": unit},
        })
    return panel


# Of labels, in pixels. Other labels share the room that is left; a value that is too long for it is whole where the pointer
# is.
_WIDTHS = {"pid": 85, "container_id": 120, "gpu": 60, "probe": 100, "cluster": 85, "slurm_job_id": 90, "instance": 150,
           "comm": 115, "namespace": 115, "state": 120, "user": 80, "complete": 115, "cause": 150, "role": 75, "signal": 100,
           "via": 115, "profiler": 80, "library": 140, "grid": 110, "block": 110,
           "alert": 190, "xid": 60, "class": 110, "device": 115}
_DATE = 165
_ZERO = {"bytes": "0 B", "binBps": "0 B/s", "percentunit": "0.0%", "s": "0 s"}


class Column:
    """How a table shows a label or, as Value, the result of one of its queries."""

    def __init__(self, field, title, unit=None, link=None, mappings=None, colors=None, align=None, width=None, nothing=None):
        """`nothing`: what a line reads that lacks the number, if that is not 0."""
        self.field, self.title, self.link, self.nothing = field, title, link, nothing
        self.is_value = field.startswith("Value")
        self.unit = unit or ("short" if self.is_value else None)
        self.mappings, self.colors, self.align, self.width = mappings, colors, align, width

    def is_elastic(self):
        """Whether it takes the room that others leave, as a name of any length."""
        return not self.is_value and not self.width and self.field not in _WIDTHS

    def override(self, narrow):
        """`narrow`: numbers take no more room than they need, as names want it."""
        # A number that a line lacks is 0; a label that it lacks is empty.
        nothing = self.nothing if self.nothing is not None else (_ZERO.get(self.unit, "0") if self.is_value else "")
        properties = [{"id": "noValue", "value": nothing}]
        width = self.width or _WIDTHS.get(self.field)
        if self.is_value and narrow and not self.width:
            width = _DATE if str(self.unit).startswith("dateTime") else max(90, 30 + 8 * len(self.title))
        if width:
            properties.append({"id": "custom.width", "value": width})
        if self.align:
            properties.append({"id": "custom.align", "value": self.align})
        if self.unit:
            properties.append({"id": "unit", "value": self.unit})
        if self.unit == "percentunit":
            properties.append({"id": "decimals", "value": 1})
        if self.link:
            properties.append({"id": "links", "value": [self.link]})
        if self.mappings:
            properties.append({"id": "mappings", "value": self.mappings})
        if self.colors:
            properties += [
                {"id": "thresholds", "value": self.colors},
                {"id": "color", "value": {"mode": "thresholds"}},
                {"id": "custom.cellOptions", "value": {"type": "color-text"}}]
        return {"matcher": {"id": "byName", "options": self.title}, "properties": properties}


def table(title, description, columns, *queries, width=12, height=8, sort=None,
          descending=True, nothing="none"):
    """One line for each label set; `sort`: the column or the columns to sort by. With several queries the columns of their values are
    "Value #A", "Value #B" and so on, and they are joined on the labels that they share."""
    values = [column for column in columns if column.is_value]
    narrow = any(column.is_elastic() for column in columns)
    transformations = [{"id": "merge", "options": {}}] if len(queries) > 1 else []
    transformations.append({
        "id": "organize",
        "options": {
            "excludeByName": {"Time": True, **({} if values else {"Value": True})},
            "includeByName": {column.field: True for column in columns},
            "indexByName": {column.field: index for index, column in enumerate(columns)},
            "renameByName": {column.field: column.title for column in columns},
        },
    })
    # A label such as a pid is text, also where it looks like a number: hence the unit string.
    sort_by = (sort,) if isinstance(sort, str) else sort or (values[0].title,)
    return _panel(
        "table", title, description, queries, unit="string", width=width, height=height,
        instant=True, form="table", transformations=transformations, nothing=nothing,
        defaults={"custom": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True,
                             "minWidth": 90}},
        overrides=[column.override(narrow) for column in columns],
        options={
            "cellHeight": "sm",
            "footer": {"countRows": False, "fields": "", "reducer": ["sum"], "show": False},
            "showHeader": True,
            "sortBy": [{"desc": descending, "displayName": one} for one in sort_by],
        })
