#!/usr/bin/env python3
"""Writes manifests/*.yaml, for those who do not use Helm, from the chart.

manifests.py             writes them
manifests.py --check     exit code 1, and the differences, if they are not what the chart makes
manifests.py --print -f VALUES.yaml...   what the chart makes of other values, on stdout

It needs Go and sprig, as Debian's packages golang-go, golang-github-masterminds-sprig-dev and
golang-k8s-sigs-yaml-dev (scripts/setup.sh --tests). Where there is Helm, it makes the same:

helm template gpusnoop-exporter docker/kubernetes/gpusnoop-exporter --namespace gpu-monitoring -f VALUES.yaml
"""

import argparse
import difflib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CHART = HERE / "gpusnoop-exporter"
RELEASE = "gpusnoop-exporter"
NAMESPACE = "gpu-monitoring"
# file -> the values that it is made with, and the kinds of objects in it
MANIFESTS = {
    "exporter.yaml": ("createNamespace: true\n",
                      {"Namespace", "ServiceAccount", "ConfigMap", "Service", "DaemonSet"}),
    "prometheus-operator.yaml": ("monitor: {kind: PodMonitor}\nprometheusRule: {enabled: true}\n",
                                 {"PodMonitor", "PrometheusRule"}),
}
HEAD = "# Made by docker/kubernetes/manifests.py from the chart beside it; do not edit.\n"


class Mistake(Exception):
    pass


def renderer():
    """The program of render/main.go, which takes some seconds to build the first time."""
    if not shutil.which("go"):
        raise Mistake("there is no go: scripts/setup.sh --tests installs it")
    place = ROOT / "build/kubernetes"
    place.mkdir(parents=True, exist_ok=True)
    # Debian's packages of Go sources lie in a GOPATH. Nothing is fetched.
    environment = {**os.environ, "GOPATH": "/usr/share/gocode", "GO111MODULE": "off", "CGO_ENABLED": "0",
                   "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOCACHE": str(place / "cache")}
    with tempfile.TemporaryDirectory(dir=place) as directory:
        built = subprocess.run(["go", "build", "-o", directory, str(HERE / "render/main.go")], check=False,
                               env=environment, text=True, capture_output=True)
        if built.returncode != 0:
            raise Mistake(f"render/main.go: {built.stderr}")
        # In one step: others may be running it.
        os.replace(pathlib.Path(directory, "main"), place / "render")
    return place / "render"


def render(program, values=(), *options):
    """What the chart makes of values, which are texts of YAML: the later ones win."""
    with tempfile.TemporaryDirectory() as directory:
        arguments = []
        for number, text in enumerate(values):
            path = pathlib.Path(directory, f"{number}.yaml")
            path.write_text(text, encoding="utf-8")
            arguments += ["-f", str(path)]
        done = subprocess.run([program, *arguments, "-namespace", NAMESPACE, *options, CHART, RELEASE],
                              check=False, text=True, capture_output=True)
    if done.returncode != 0:
        raise Mistake(done.stderr.strip())
    return done.stdout


def documents(text):
    """The objects of a rendered text, as texts without the line that begins each."""
    return [one for one in ("\n" + text).split("\n---\n") if one.strip()]


def kind_of(document):
    return next(line.split(":")[1].strip() for line in document.splitlines() if line.startswith("kind:"))


def made():
    """file name -> text"""
    program = renderer()
    texts = {}
    for name, (values, kinds) in MANIFESTS.items():
        chosen = [one for one in documents(render(program, [values])) if kind_of(one) in kinds]
        # A namespace must be there before what is in it.
        chosen.sort(key=lambda one: kind_of(one) != "Namespace")
        texts[name] = HEAD + "".join(f"---\n{one.strip()}\n" for one in chosen)
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--print", action="store_true")
    parser.add_argument("-f", action="append", default=[], metavar="VALUES.yaml", type=pathlib.Path)
    options = parser.parse_args()
    if options.f and not options.print:
        parser.error("-f is for --print: the manifests that are committed have values of their own")
    try:
        if options.print:
            print(render(renderer(), [path.read_text(encoding="utf-8") for path in options.f]), end="")
            return 0
        texts = made()
    except (Mistake, OSError) as mistake:
        print(f"manifests.py: {mistake}", file=sys.stderr)
        return 1
    stale = False
    for name, text in texts.items():
        path = HERE / "manifests" / name
        if not options.check:
            path.write_text(text, encoding="utf-8")
            continue
        committed = path.read_text(encoding="utf-8") if path.exists() else ""
        if committed != text:
            stale = True
            sys.stdout.writelines(difflib.unified_diff(committed.splitlines(True), text.splitlines(True), str(path),
                                                       "what manifests.py writes"))
    for path in (HERE / "manifests").glob("*.yaml"):
        if path.name not in texts:
            stale = True
            print(f"{path}: is not made by manifests.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
