"""Asking a Prometheus what a panel would ask it."""

import json
import math
import re
import urllib.error
import urllib.parse
import urllib.request


class Refused(Exception):
    """With what Prometheus said."""


class Prometheus:
    def __init__(self, address):
        self.address = address.rstrip("/")

    def _get(self, path, **parameters):
        query = urllib.parse.urlencode(parameters, doseq=True)
        try:
            with urllib.request.urlopen(f"{self.address}/api/v1/{path}?{query}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            body = error.read().decode(errors="replace")
            try:
                body = json.loads(body)["error"]
            except (ValueError, KeyError):
                pass
            raise Refused(body) from None

    def now(self):
        return float(self._get("query", query="time()")["result"][1])

    def instant(self, expression, time):
        """The series, each as its labels and a list of one (time, value)."""
        answer = self._get("query", query=expression, time=time)
        if answer["resultType"] == "scalar":
            return [({}, [(answer["result"][0], float(answer["result"][1]))])]
        return [(one["metric"], [(one["value"][0], float(one["value"][1]))])
                for one in answer["result"]]

    def over(self, expression, start, end, step):
        """The series, each as its labels and a list of (time, value)."""
        answer = self._get("query_range", query=expression, start=start, end=end, step=step)
        return [(one["metric"], [(time, float(value)) for time, value in one["values"]])
                for one in answer["result"]]

    def label_values(self, selector, label, start, end):
        return self._get(f"label/{label}/values", **{"match[]": selector, "start": start, "end": end})


def has_data(series):
    """Whether a panel would show anything: a value that is a number, or infinite."""
    return any(not math.isnan(value) for _, points in series for _, value in points)


def chosen(values):
    """What Grafana makes of several values of a variable in a regular expression, in a string."""
    escaped = [re.sub(r"([\\^$*+?.()|{}\[\]])", r"\\\\\1", value) for value in values]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
