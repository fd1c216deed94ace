#!/usr/bin/env python3
"""Makes tests for promtool from the models of programs in models/, expected.yaml and texts.yaml; run.py runs them.

  situations.py DIRECTORY [NAME...]         writes them there, to read what is in one
  situations.py --print PROMTOOL [NAME...]  what fires in each situation and when, with the rules as they are
  situations.py --failed-scrapes PROMTOOL [NAME...]  which of these alerts change when scrapes fail now and then

Each file says of every alert whether it fires: how many of it, in which minute the first begins, in which the
last ends. An alert that is not named there does not fire in any minute. And one file has its whole text.
"""
import argparse
import concurrent.futures
import json
import os
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
SKIPPED = 4
FIRING = 'ALERTS{alertstate="firing"}'


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


def with_failed_scrapes(model):
    """The same, but every seventh evaluation meets an exporter whose last scrape has failed."""
    def failing():
        world = model()
        failed = tuple((minute, minute + 1) for minute in range(2 * world.every, world.minutes, 7 * world.every))
        for node in world.nodes:
            node.down = (*node.down, *failed)
        return world
    failing.__name__, failing.__doc__ = model.__name__, model.__doc__
    return failing


def test_of(model, fires, texts):
    world = model()
    series = [{"series": key, "values": notation(values, world.minutes)} for key, values in world.run().items()]
    checks = [{"expr": expression, "eval_time": f"{world.minutes}m", "exp_samples": [
        {"labels": f'{{alertname="Gpusnoop{alert}"}}', "value": when[key]} for alert, when in sorted(fires.items())]}
              for key, expression in expressions(world.minutes, world.every).items()]
    return {"rule_files": [str(path) for path in sorted(RULES.glob("gpusnoop_*.yaml"))],
            "evaluation_interval": f"{world.every}m",
            "group_eval_order": group_order(),
            "tests": [{"name": model.__doc__.replace("\n   ", ""), "interval": "1m", "input_series": series,
                       "promql_expr_test": checks, **texts_of(model.__name__, texts)}]}


def test_file(directory, model, fires, texts):
    """A file of the test, as JSON, which is YAML too, and is written in a twentieth of the time."""
    path = pathlib.Path(directory) / f"{model.__name__}.yaml"
    path.write_text(json.dumps(test_of(model, fires, texts), indent=1))
    return path


def what_fires(promtool, model):
    """alert -> number, first, last: of promtool's complaints about a test that expects no alert."""
    with tempfile.TemporaryDirectory() as directory:
        path = test_file(directory, model, {}, {})
        said = subprocess.run([promtool, "test", "rules", path], text=True, capture_output=True, check=False)
    fires, keys = {}, iter(("number", "first", "last"))
    for got in re.findall(r"got:(.*)", said.stdout + said.stderr):
        key = next(keys)
        for alert, value in re.findall(r'alertname="Gpusnoop(\w+)"\} ([0-9E+.]+)', got):
            fires.setdefault(alert, {})[key] = int(float(value))
    if not fires and said.returncode:
        print(said.stdout + said.stderr)
    return fires


def changed_by_failed_scrapes(promtool, names=()):
    """What alerts differ in when scrapes fail now and then: a sentence for each."""
    expected = yaml.safe_load((TESTS / "expected.yaml").read_text())
    chosen = [model for _, model in models() if expected[model.__name__] and (not names or model.__name__ in names)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        fired = pool.map(lambda model: what_fires(promtool, with_failed_scrapes(model)), chosen)
        return [problem for model, fires in zip(chosen, fired)
                for problem in differences(model, expected[model.__name__], fires)]


def differences(model, expected, fires):
    # An evaluation later or earlier is no difference: a series ends and begins with a scrape.
    slack = 2 * model().every
    for alert in sorted(expected.keys() | fires.keys()):
        was, now = expected.get(alert), fires.get(alert)
        if was is None or now is None or was["number"] != now["number"] or any(
                abs(was[key] - now[key]) > slack for key in ("first", "last")):
            yield f"{model.__name__}: {alert} is {now or 'silent'} when scrapes fail now and then, instead of {was or 'silent'}"


def firing():
    """The names of situations in which an alert fires."""
    return [name for name, fires in yaml.safe_load((TESTS / "expected.yaml").read_text()).items() if fires]


def write(directory, names=()):
    """The files of these situations, or of all; what is wrong with expected.yaml."""
    expected = yaml.safe_load((TESTS / "expected.yaml").read_text())
    texts = yaml.safe_load((TESTS / "texts.yaml").read_text())
    all_models = [model for _, model in models()]
    unknown = expected.keys() ^ {model.__name__ for model in all_models}
    problems = [f"{name} is not both in models/ and in expected.yaml" for name in sorted(unknown)]
    return [test_file(directory, model, expected[model.__name__] or {}, texts) for model in all_models
            if model.__name__ not in unknown and (not names or model.__name__ in names)], problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", metavar="PROMTOOL")
    parser.add_argument("--failed-scrapes", metavar="PROMTOOL")
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    if options.failed_scrapes:
        if not pathlib.Path(options.failed_scrapes).exists():
            print(f"no {options.failed_scrapes} (scripts/setup.sh --tests)")
            return 1 if "CI" in os.environ else SKIPPED
        problems = changed_by_failed_scrapes(pathlib.Path(options.failed_scrapes).resolve(), options.arguments)
        print("\n".join(problems), end="\n" if problems else "")
        return 1 if problems else 0
    if options.print:
        for _, model in models():
            if not options.arguments or model.__name__ in options.arguments:
                print(f"{model.__name__}:")
                for alert, when in sorted(what_fires(pathlib.Path(options.print).resolve(), model).items()):
                    print(f"  {alert}: {{number: {when['number']}, first: {when['first']}, last: {when['last']}}}", flush=True)
        return 0
    if not options.arguments:
        parser.error("in which directory?")
    directory = pathlib.Path(options.arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    _, problems = write(directory, options.arguments[1:])
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
