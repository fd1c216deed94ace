#!/usr/bin/env python3
"""The stage `fleet` of docker/Dockerfile without a Docker: fleet_image_test.py TOOLS

The files that it copies, and no others, suffice for its command, which makes a fleet of a few minutes here and serves
it: with the tools of this machine, and at a port of this machine alone."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "dashboards"))

# pylint: disable=wrong-import-position
from complaints import complain, conclude, same
from fleet.server import free_port

SKIPPED = 4


def stage(name):
    text = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8")
    return re.search(rf"^FROM \S+ AS {name}\n(.*?)(?=^FROM |\Z)", text, re.M | re.S)[1]


def copied(text, to):
    ignored = shutil.ignore_patterns("node_modules", "__pycache__")  # .dockerignore
    for source, target in re.findall(r"^COPY (\S+) (\S+)$", text, re.M):
        (to / target).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, to / target, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / source, to / target)


def ask(address, query, at):
    parameters = urllib.parse.urlencode({"query": query, "time": at})
    with urllib.request.urlopen(f"{address}/api/v1/query?{parameters}", timeout=30) as answer:
        result = json.load(answer)["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0


def check_served(lines):
    said = "".join(lines)
    addresses = dict(line.rstrip().split(": ", 1) for line in lines if ": http://" in line)
    if set(addresses) != {"Prometheus", "Grafana"}:
        complain(f"no addresses: {said}")
        return
    page = urllib.parse.urlparse(addresses["Grafana"])
    dashboard = page.path.removeprefix("/d/")
    same("the dashboard is there", (ROOT / f"dashboards/grafana/{dashboard}.json").exists(), True)
    times = {name: int(values[0]) / 1000 for name, values in urllib.parse.parse_qs(page.query).items()}
    same("the length", times["to"] - times["from"], 0.25 * 3600)
    # As the exporters say it, and as the rules have recorded it.
    for query in "count(gpusnoop_build_info)", "count(count by (instance) (instance:gpusnoop_processes:count))":
        same(query, ask(addresses["Prometheus"], query, times["to"]), 12)


def main():
    tools = pathlib.Path(sys.argv[1]).absolute()
    if not os.access(tools / "prometheus", os.X_OK):
        print(f"no {tools / 'prometheus'} (scripts/setup.sh --tests)")
        return 1 if "CI" in os.environ else SKIPPED
    text = stage("fleet")
    command = json.loads(re.search(r"^CMD (.*)$", text, re.M)[1])
    same("its options", command[1:], ["--tools=/usr/bin", "--listen=0.0.0.0:9090"])
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as temporary:
        copied(text, pathlib.Path(folder))
        program = [pathlib.Path(folder, command[0]), f"--tools={tools}", f"--listen=127.0.0.1:{free_port()}", "--hours=0.25"]
        with subprocess.Popen(program, cwd=folder, text=True, stdout=subprocess.PIPE,
                              env={**os.environ, "TMPDIR": temporary}) as process:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.startswith("Grafana: "):
                    break
            check_served(lines)
            process.terminate()
        same(f"the end of {shlex.join(command)}", process.returncode, 0)
        same("what it leaves", os.listdir(temporary), [])
    return conclude("the image's files suffice for its fleet")


if __name__ == "__main__":
    sys.exit(main())
