#!/usr/bin/env python3
"""Writes grafana/*.json from source/*.py, which is where dashboards are changed.

generate.py           writes the files
generate.py --check   exit code 1, and which, if a file there is not what would be written
"""

import argparse
import json
import pathlib
import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from source import functions, health, host, kernel, memory, node, overview, work, workload

HERE = pathlib.Path(__file__).resolve().parent
MODULES = (overview, workload, node, memory, work, functions, host, kernel, health)


def files():
    """The name and the text of each file."""
    made = {}
    for module in MODULES:
        dashboard = module.make()
        made[f"{dashboard['uid']}.json"] = json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"
    return made


def stale(directory, made):
    """What must be done to the directory, in sentences; nothing if it is fresh."""
    there = {path.name: path.read_text(encoding="utf-8") for path in directory.glob("*.json")}
    for name, text in made.items():
        if name not in there:
            yield f"{name} is missing"
        elif there[name] != text:
            yield f"{name} is not what its source makes"
    for name in there.keys() - made.keys():
        yield f"{name} has no source"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument("--directory", type=pathlib.Path, default=HERE / "grafana")
    arguments = parser.parse_args()
    made = files()
    if arguments.check:
        problems = sorted(stale(arguments.directory, made))
        for problem in problems:
            print(f"{arguments.directory}: {problem}", file=sys.stderr)
        if problems:
            print("dashboards/generate.py rewrites them", file=sys.stderr)
        return 1 if problems else 0
    arguments.directory.mkdir(parents=True, exist_ok=True)
    for path in arguments.directory.glob("*.json"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (arguments.directory / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
