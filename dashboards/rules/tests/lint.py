#!/usr/bin/env python3
"""What promtool does not look at: every alert has what a person needs, a page and tests, every recorded
series a test, and every metric is one that the exporter or Prometheus has."""
import pathlib
import re
import sys

import yaml

from situations import models

TESTS = pathlib.Path(__file__).resolve().parent
RULES = TESTS.parent
ROOT = RULES.parent.parent
# Minutes of each situation
LENGTH = {model.__name__: model().minutes for _, model in models()}
SEVERITIES = {"critical", "warning", "info"}
# A page says these, each as a heading.
SECTIONS = ["What it means", "How to check", "What to do"]
# What an exporter shows to other machines by default: all but what programs do.
OPEN_PATHS = {"", "metrics", "-/healthy"}
# Not of the exporter's own families.
OTHERS = {"up"}


def load_rules():
    for path in sorted(RULES.glob("gpusnoop_*.yaml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from group["rules"]


def cases():
    """alert -> whether each of its tests expects it; and the expressions that are tested"""
    alerts, expressions = {}, set()
    for path in sorted((TESTS / "promtool").glob("*.yaml")):
        for test in yaml.safe_load(path.read_text())["tests"]:
            for case in test.get("promql_expr_test", []):
                expressions.add(case["expr"])
                for alert in re.findall(r'^ALERTS\{alertname="(\w+)"', case["expr"]):
                    alerts.setdefault(alert, []).append(bool(case["exp_samples"]))
    return alerts, expressions


def expected():
    """situation -> alert -> when it fires there"""
    situations = yaml.safe_load((TESTS / "expected.yaml").read_text())
    return {name: {f"Gpusnoop{alert}": when for alert, when in (fires or {}).items()} for name, fires in situations.items()}


def check_situations(alerts, problem):
    """Each alert fires in a situation, ends in one, is silent in three, and has its whole text tested."""
    situations = expected()
    texts = yaml.safe_load((TESTS / "texts.yaml").read_text())
    for alert in sorted(alerts):
        firing = [name for name, fires in situations.items() if alert in fires]
        if not firing:
            problem(f"{alert}: fires in no situation")
        if len(situations) - len(firing) < 3:
            problem(f"{alert}: is silent in less than three situations")
        if alert not in texts:
            problem(f"tests/texts.yaml: does not have {alert}")
    for name, fires in situations.items():
        for alert in fires.keys() - alerts:
            problem(f"tests/expected.yaml: {name}: there is no alert {alert}")
    for alert in texts.keys() - alerts:
        problem(f"tests/texts.yaml: there is no alert {alert}")


def matrix(alerts):
    """Situations by alerts, as docs/alerts.md has it."""
    numbers = {alert: str(number) for number, alert in enumerate(alerts, 1)}
    rows = ["| situation | " + " | ".join(numbers.values()) + " |", "|---|" + "---|" * len(numbers)]
    for name, fires in expected().items():
        rows.append(f"| {name.replace('_', ' ')} | " + " | ".join("●" if alert in fires else " " for alert in alerts) + " |")
    return "\n".join(rows)


def families():
    """name of a series -> its family"""
    known = {}
    for name, kind in re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs/metrics.md").read_text(), re.M):
        for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            known[name + suffix] = name
    return known


def unquoted(expression):
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)


def check_runbook(page, text, problem):
    """It begins with what to look at first, has no query twice, and gives commands that work by default."""
    name = page.relative_to(ROOT)
    first = text.partition("\n## ")[0].partition("\n")[2].strip()
    if not first or len(first) > 300 or first.startswith(("|", "```")):
        problem(f"{name}: does not begin with what to look at, in a sentence or two")
    lines = [line for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]
    for line in {line for line in lines if line and not line.startswith("#") and lines.count(line) > 1}:
        problem(f"{name}: has this twice: {line}")
    for path in re.findall(r"//NODE:19435/([^\s`'\"#?]*)", text):
        if path not in OPEN_PATHS:
            problem(f"{name}: /{path} answers only on the node (127.0.0.1) by default")
    if re.search(r"127\.0\.0\.1|gpusnoop_exporter (why|top|trace)", text) and not re.search(r"\bnode\b", text, re.I):
        problem(f"{name}: does not say where to run its commands")


def check_alert(rule, tested, problem):
    name = rule["alert"]
    if not name.startswith("Gpusnoop"):
        problem(f"{name}: does not begin with Gpusnoop")
    if rule.get("labels", {}).get("severity") not in SEVERITIES:
        problem(f"{name}: its severity is none of {sorted(SEVERITIES)}")
    annotations = rule.get("annotations", {})
    for key in "summary", "description", "runbook_url":
        if not annotations.get(key):
            problem(f"{name}: has no {key}")
    if "{{" in annotations.get("summary", ""):
        problem(f"{name}: its summary is to be the same for all of them, so that it can head a group")
    # Of a vector without elements, `first` is an error, and `with` leaves the part out.
    for before, use in re.findall(r"(.{0,16})(\{\{[^}]*\bfirst\b[^}]*\}\})", annotations.get("description", "")):
        if use != "{{ with first . }}" or not re.search(r"\| query -?\}\}$", before.rstrip()):
            problem(f"{name}: {use} fails if the query has no result")
    grouped = re.search(r"by \(([^)]*)\)", rule["expr"])
    if grouped and "container_id" in grouped.group(1) and "container_id:gpusnoop_pod:info" not in rule["expr"]:
        problem(f"{name}: is about a container, and not @with_pod(...)@")
    page = ROOT / "docs/runbooks" / f"{name}.md"
    if not annotations.get("runbook_url", "").endswith(f"/docs/runbooks/{name}.md"):
        problem(f"{name}: its runbook_url is not that of docs/runbooks/{name}.md")
    text = page.read_text() if page.exists() else ""
    if not text.startswith(f"# {name}\n"):
        problem(f"{page.relative_to(ROOT)}: is not there, or does not begin with # {name}")
    for section in SECTIONS:
        if f"\n## {section}\n" not in text:
            problem(f"{page.relative_to(ROOT)}: has no section {section!r}")
    check_runbook(page, text, problem)
    # Fires, and is silent before it and after it: here, or in a situation.
    fires = tested.get(name, [])
    recovers = any(name in firing and firing[name]["last"] < LENGTH[situation] for situation, firing in expected().items())
    if not recovers and (True not in fires or False not in fires or fires[-1]):
        problem(f"{name}: its tests are not of: fires, does not fire, recovers")


def check_identity(rule, problem):
    """Two jobs that are both python3 are two series: who is grouped by name is grouped by script and job, too."""
    for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"]):
        names = set(re.split(r",\s*", labels))
        missing = sorted({"script", "slurm_job_id"} - names) if "comm" in names else []
        if missing:
            problem(f"{rule.get('alert') or rule['record']}: ({labels}) lacks {', '.join(missing)}")


def main():
    problems = []
    tested, expressions = cases()
    known = families()
    rules = list(load_rules())
    recorded = {rule["record"] for rule in rules if "record" in rule}
    alerts = {rule["alert"] for rule in rules if "alert" in rule}
    for rule in rules:
        check_identity(rule, problems.append)
        if "alert" in rule:
            check_alert(rule, tested, problems.append)
        elif rule["record"] not in expressions:
            problems.append(f"{rule['record']}: has no test")
        for name in re.findall(r"\b(?:\w+:)?(?:gpusnoop_|process_|up\b)[\w:]*", unquoted(rule["expr"])):
            if name not in known and name not in OTHERS and name not in recorded:
                problems.append(f"{rule.get('alert') or rule['record']}: there is no metric {name}")
    for name in sorted(set(tested) - alerts):
        problems.append(f"tests: there is no alert {name}")
    check_situations(alerts, problems.append)
    readme = (ROOT / "docs/alerts.md").read_text() if (ROOT / "docs/alerts.md").exists() else ""
    for name in sorted(alerts):
        if f"[{name}](runbooks/{name}.md)" not in readme:
            problems.append(f"docs/alerts.md: does not have {name}")
    in_order = re.findall(r"^\| [0-9]+ \| \[(\w+)\]\(runbooks/", readme, re.M)
    if matrix(in_order) not in readme:
        problems.append("docs/alerts.md: its matrix is not this:\n" + matrix(in_order))
    for page in sorted((ROOT / "docs/runbooks").glob("*.md")):
        if page.stem not in alerts:
            problems.append(f"{page.relative_to(ROOT)}: there is no such alert")
    print("\n".join(problems) or f"{len(alerts)} alerts and {len(recorded)} recorded series are in order")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
