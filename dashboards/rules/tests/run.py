#!/usr/bin/env python3
"""Runs the rules through promtool: `run.py PROMTOOL MAJOR`, where MAJOR is the version it must have.

The tests in promtool/ name labels only, so they run on a copy of the rules without annotations. Then the
first that fires of each alert runs on the rules as they are, and must give the text of descriptions.yaml.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

TESTS = pathlib.Path(__file__).resolve().parent
RULES = TESTS.parent
SKIPPED = 4


def run(*command, cwd=None):
    finished = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if finished.returncode != 0:
        print(finished.stdout)
    return finished.returncode == 0


def without_annotations():
    """file name -> rules, and alert -> its annotations"""
    files, annotations = {}, {}
    for path in sorted(RULES.glob("gpusnoop_*.yaml")):
        files[path.name] = yaml.safe_load(path.read_text())
        for group in files[path.name]["groups"]:
            for rule in group["rules"]:
                if "alert" in rule:
                    annotations[rule["alert"]] = rule.pop("annotations")
    return files, annotations


def first_that_fire(tests, annotations, descriptions, seen):
    """Of each alert that is not in `seen`, the first test that expects it, with its whole text."""
    for test in tests["tests"]:
        first = []
        for case in test.pop("alert_rule_test", []):
            alert = case["alertname"]
            if not case["exp_alerts"] or alert in seen:
                continue
            seen.add(alert)
            expected = descriptions.get(alert, [])
            if len(expected) != len(case["exp_alerts"]):
                print(f"descriptions.yaml has {len(expected)} of the {len(case['exp_alerts'])} texts of {alert}")
            for one, text in zip(case["exp_alerts"], expected + [""] * len(case["exp_alerts"])):
                one["exp_annotations"] = {**annotations[alert], "description": text}
            first.append(case)
        test["alert_rule_test"] = first
        test.pop("promql_expr_test", None)
    tests["tests"] = [test for test in tests["tests"] if test["alert_rule_test"]]
    return tests


def write(path, what):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(what, sort_keys=False))


def main():
    promtool, major = os.path.abspath(sys.argv[1]), sys.argv[2]
    if not os.access(promtool, os.X_OK):
        print(f"no {promtool} (scripts/setup.sh --tests)")
        sys.exit(1 if "CI" in os.environ else SKIPPED)
    version = subprocess.run([promtool, "--version"], text=True, capture_output=True, check=True).stdout
    if f"version {major}." not in version:
        sys.exit(f"{promtool} is not of version {major}: {version}")
    stripped, annotations = without_annotations()
    descriptions = yaml.safe_load((TESTS / "descriptions.yaml").read_text())
    good = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *(str(RULES / name) for name in stripped))
    with tempfile.TemporaryDirectory() as directory:
        plain, whole = pathlib.Path(directory, "plain"), pathlib.Path(directory, "whole")
        for name, rules in stripped.items():
            write(plain / name, rules)
            write(whole / name, yaml.safe_load((RULES / name).read_text()))
        seen = set()
        for path in sorted((TESTS / "promtool").glob("*.yaml")):
            tests = yaml.safe_load(path.read_text())
            write(plain / "tests/promtool" / path.name, tests)
            texts = first_that_fire(tests, annotations, descriptions, seen)
            if texts["tests"]:
                write(whole / "tests/promtool" / path.name, texts)
        if seen != set(annotations) or set(descriptions) != seen:
            print(f"not the same alerts fire, are there, and have a description: "
                  f"{sorted(seen ^ set(annotations))} {sorted(seen ^ set(descriptions))}")
            good = False
        for root in plain, whole:
            tests = root / "tests/promtool"
            good = run(promtool, "test", "rules", *(path.name for path in sorted(tests.iterdir())), cwd=tests) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
