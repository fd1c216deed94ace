"""What Prometheus would have made of the series: its recording rules, in the order in which they rest on each other,
and ALERTS, which promtool does not backfill."""

import json
import pathlib
import re

import yaml

RULES = pathlib.Path(__file__).resolve().parents[1] / "rules"
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def rules():
    return [rule for path in sorted(RULES.glob("gpusnoop_*.yaml"))
            for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


def levels(every):
    """The recording rules by level: each uses only what earlier levels have recorded."""
    names = {rule["record"] for rule in every if "record" in rule}
    left = [rule for rule in every if "record" in rule]
    found = []
    while left:
        waiting = {rule["record"] for rule in left}
        ready = [rule for rule in left
                 if not waiting & (set(re.findall(r"[\w:]+", rule["expr"])) & names) - {rule["record"]}]
        if not ready:
            raise ValueError(f"these rules rest on each other: {sorted(waiting)}")
        found.append(ready)
        left = [rule for rule in left if rule not in ready]
    return found


def rule_file(level):
    return json.dumps({"groups": [{"name": "past", "rules": level}]})


def duration(text):
    return sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"(\d+)([smhd])", str(text or "")))


def states(times, true, pending_for, keep_firing_for):
    """For each of `times`: None, "pending" or "firing", as Prometheus decides it. `true`: when the expression had the
    series."""
    since = firing = None
    for time in times:
        if time in true:
            since = time if since is None else since
            if time - since >= pending_for:
                firing = time
        else:
            since = None
        if firing is not None and (time in true or time - firing < keep_firing_for):
            yield "firing"
        elif since is not None:
            firing = None
            yield "pending"
        else:
            firing = None
            yield None


def _selector(labels):
    return "{" + ",".join(f"{label}={json.dumps(str(value))}" for label, value in labels.items() if value != "") + "}"


def since(times, decided):
    """For each of `times` at which there is a state: when it was the first one without a break."""
    began = None
    for time, state in zip(times, decided):
        if state is None:
            began = None
        else:
            began = time if began is None else began
            yield time, began


def alerts(source, every, start, end, step=60):
    """The series ALERTS and ALERTS_FOR_STATE as lines of OpenMetrics."""
    times = [start + index * step for index in range((end - start) // step + 1)]
    for rule in every:
        if "alert" not in rule:
            continue
        for labels, points in source.over(rule["expr"], start, end, step):
            labels = {**labels, **rule.get("labels", {}), "alertname": rule["alert"]}
            labels.pop("__name__", None)
            true = {int(time) for time, _ in points}
            decided = list(states(times, true, duration(rule.get("for")), duration(rule.get("keep_firing_for"))))
            for wanted in ("pending", "firing"):
                inner = _selector({**labels, "alertstate": wanted})
                for time, state in zip(times, decided):
                    if state == wanted:
                        yield f"ALERTS{inner} 1 {time}\n"
            for time, began in since(times, decided):
                yield f"ALERTS_FOR_STATE{_selector(labels)} {began} {time}\n"
