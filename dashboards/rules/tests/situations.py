#!/usr/bin/env python3
"""Writes situations/*.yaml, tests for promtool, from the models of programs in models/ and from expected.yaml
and texts.yaml.

  situations.py                     writes them
  situations.py --check             fails if a committed one is not what it would write
  situations.py --print PROMTOOL    what fires in each situation and when, with the rules as they are

Each file says of every alert whether it fires: how many of it, in which minute the first begins, in which the
last ends. An alert that is not named there does not fire in any minute. And one file has its whole text.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

from models import healthy, operations, sick, starved
from models.world import notation

TESTS = pathlib.Path(__file__).resolve().parent
RULES = TESTS.parent
FIRING = 'ALERTS{alertstate="firing"}'
HEAD = "# Made by dashboards/rules/tests/situations.py from models/, expected.yaml and texts.yaml; do not edit.\n"


def models():
    for kind in healthy, operations, sick, starved:
        for model in kind.ALL:
            yield kind.__name__.split(".")[-1], model


def expressions(minutes, every):
    span = f"[{minutes + 5}m:{every}m]"
    return {
        "number": f"count by (alertname) (last_over_time({FIRING}[{minutes + 5}m]))",
        "first": f"min by (alertname) (min_over_time(timestamp({FIRING}){span})) / 60",
        "last": f"max by (alertname) (max_over_time(timestamp({FIRING}){span})) / 60",
    }


def group_order():
    """Recorded series first, as promtool has no order of its own, and an alert sees the ones of its own minute."""
    named = [(path.name != "gpusnoop_recording.yaml", group["name"]) for path in sorted(RULES.glob("gpusnoop_*.yaml"))
             for group in yaml.safe_load(path.read_text())["groups"]]
    return [name for _, name in sorted(named, key=lambda one: one[0])]


def annotations():
    """alert -> its annotations, as they stand in the rules"""
    return {rule["alert"]: rule["annotations"] for path in sorted(RULES.glob("gpusnoop_*.yaml"))
            for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"] if "alert" in rule}


def texts_of(name, texts):
    """The alerts whose whole text is tested in this situation."""
    checks = []
    for alert, text in sorted(texts.items()):
        if text["situation"] == name:
            checks.append({"alertname": alert, "eval_time": f"{text['minute']}m", "exp_alerts": [
                {"exp_labels": text["labels"],
                 "exp_annotations": {**annotations()[alert], "description": text["description"]}}]})
    return {"alert_rule_test": checks} if checks else {}


def test_of(model, fires, texts):
    world = model()
    series = [{"series": key, "values": notation(values, world.minutes)} for key, values in world.run().items()]
    checks = [{"expr": expression, "eval_time": f"{world.minutes}m", "exp_samples": [
        {"labels": f'{{alertname="Gpusnoop{alert}"}}', "value": when[key]} for alert, when in sorted(fires.items())]}
              for key, expression in expressions(world.minutes, world.every).items()]
    return {"rule_files": [f"../../{path.name}" for path in sorted(RULES.glob("gpusnoop_*.yaml"))],
            "evaluation_interval": f"{world.every}m",
            "group_eval_order": group_order(),
            "tests": [{"name": model.__doc__.replace("\n   ", ""), "interval": "1m", "input_series": series,
                       "promql_expr_test": checks, **texts_of(model.__name__, texts)}]}


def text_of(kind, model, fires, texts):
    lines = [HEAD, f"# {kind}: {' '.join(model.__doc__.split())}\n"]
    lines += [f"#   Gpusnoop{alert}: {when['number']} of it, minutes {when['first']} to {when['last']}\n"
              for alert, when in sorted(fires.items())] or ["#   no alert fires\n"]
    return "".join(lines) + yaml.safe_dump(test_of(model, fires, texts), sort_keys=False, width=10**6)


def what_fires(promtool, model):
    """alert -> number, first, last: of promtool's complaints about a test that expects no alert."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=TESTS / "situations", delete=False) as file:
        yaml.safe_dump(test_of(model, {}, {}), file, sort_keys=False, width=10**6)
    path = pathlib.Path(file.name)
    try:
        said = subprocess.run([promtool, "test", "rules", path.name], cwd=path.parent, text=True, capture_output=True,
                              check=False)
    finally:
        path.unlink()
    fires, keys = {}, iter(("number", "first", "last"))
    for got in re.findall(r"got:(.*)", said.stdout + said.stderr):
        key = next(keys)
        for alert, value in re.findall(r'alertname="Gpusnoop(\w+)"\} ([0-9E+.]+)', got):
            fires.setdefault(alert, {})[key] = int(float(value))
    if not fires and said.returncode:
        print(said.stdout + said.stderr)
    return fires


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--print", metavar="PROMTOOL")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.print:
        for kind, model in models():
            if not options.names or model.__name__ in options.names:
                print(f"{model.__name__}:")
                for alert, when in sorted(what_fires(pathlib.Path(options.print).resolve(), model).items()):
                    print(f"  {alert}: {{number: {when['number']}, first: {when['first']}, last: {when['last']}}}", flush=True)
        return 0
    expected = yaml.safe_load((TESTS / "expected.yaml").read_text())
    texts = yaml.safe_load((TESTS / "texts.yaml").read_text())
    problems, written = [], set()
    for kind, model in models():
        path = TESTS / "situations" / f"{model.__name__}.yaml"
        written.add(path)
        if model.__name__ not in expected:
            problems.append(f"expected.yaml: does not have {model.__name__}")
            continue
        text = text_of(kind, model, expected[model.__name__] or {}, texts)
        if not options.check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            problems.append(f"{path}: is not what situations.py writes")
    problems += [f"{path}: no model makes it" for path in (TESTS / "situations").glob("*.yaml") if path not in written]
    problems += [f"expected.yaml: there is no model {name}" for name in
                 expected.keys() - {model.__name__ for _, model in models()}]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
