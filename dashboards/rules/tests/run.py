#!/usr/bin/env python3
"""Runs the rules' tests in promtool, as they stand: `run.py PROMTOOL MAJOR`, where MAJOR is the version it must have."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import situations

TESTS = pathlib.Path(__file__).resolve().parent
RULES = TESTS.parent
SKIPPED = 4


def run(*command):
    # promtool is short-lived: collecting its garbage took a third of its time.
    finished = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, "GOGC": "400"})
    if finished.returncode != 0:
        print(" ".join(command[:3]), finished.stdout)
    return finished.returncode == 0


def main():
    promtool, major = os.path.abspath(sys.argv[1]), sys.argv[2]
    if not os.access(promtool, os.X_OK):
        print(f"no {promtool} (scripts/setup.sh --tests)")
        sys.exit(1 if "CI" in os.environ else SKIPPED)
    version = subprocess.run([promtool, "--version"], text=True, capture_output=True, check=True).stdout
    if f"version {major}." not in version:
        sys.exit(f"{promtool} is not of version {major}: {version}")
    good = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *map(str, sorted(RULES.glob("gpusnoop_*.yaml"))))
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(2) as pool:
        # That nothing fires where nothing should is tested in one version: it takes long.
        made, problems = situations.write(directory, situations.firing() if major == "2" else ())
        for problem in problems:
            print(problem)
        tests = sorted([*(TESTS / "promtool").glob("*.yaml"), *made])
        good = all([good and not problems, *pool.map(lambda path: run(promtool, "test", "rules", str(path)), tests)])
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
