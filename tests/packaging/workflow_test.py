#!/usr/bin/env python3
"""The workflow of releases cannot be run here. What can be seen of it: it is YAML that names scripts, files and
secrets that exist, its shell is shell, and all versions are one."""

import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATH = ROOT / ".github/workflows/release.yml"
RIGHTS = {"contents", "packages", "id-token", "attestations"}


def complaints():
    text = PATH.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    if "THIS HAS NOT BEEN RUN" not in text.partition("name:")[0]:
        yield "it does not say that it has not been run"
    if workflow["permissions"] != {"contents": "read"}:
        yield "jobs have more rights than they name"
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        if not set(job.get("permissions", {})) <= RIGHTS or job.get("needs", name) not in jobs:
            yield f"{name}: unknown rights, or a job before it that there is not"
        for step in job["steps"]:
            if ("run" in step) == ("uses" in step):
                yield f"{name}: a step has one of run and uses: {step}"
            if "uses" in step and not re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]):
                yield f"{name}: {step['uses']} is not one version of an action"
            yield from (f"{name}: {problem}" for problem in complaints_of_shell(step.get("run", "")))
    done = subprocess.run([ROOT / "scripts/release_version.sh"], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        yield done.stderr.strip()
    if subprocess.run([ROOT / "scripts/release_version.sh", "v99.0.0"], check=False, capture_output=True).returncode == 0:
        yield "scripts/release_version.sh takes any tag"


def complaints_of_shell(script):
    checked = subprocess.run(["bash", "-n"], input=script, check=False, capture_output=True, text=True)
    if checked.returncode != 0:
        yield f"{script}: {checked.stderr}"
    if "${{" in script:
        yield f"text of the event is put into the shell: {script}"
    for file in re.findall(r"(?:scripts|docker|packaging)/[\w./-]+", script):
        if not (ROOT / file).exists():
            yield f"there is no {file}"
    targets = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)[0].split()
    for target in re.findall(r"^make ([\w-]+)$", script, re.M):
        if target not in targets:
            yield f"make has no {target}"


def main():
    found = list(complaints())
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
