#!/usr/bin/env python3
"""The program in root file systems that have a C library and nothing else: bare_root_test.py PROGRAM STANDIN LIBC...

Each LIBC is an unpacked package libc6; `here` is that of this machine. There, the program must show the same
calls of a CUDA program as it does here. With a C library that is too old it must not start."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from serving import Serving, eventually

SKIPPED = 4
CONFIG = pathlib.Path(__file__).resolve().parents[2] / "config.yaml"


def run(*command):
    return subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)


def needed(program):
    """What the dynamic linker loads for it here, and the linker itself."""
    return [word for word in run("ldd", program).stdout.split() if word.startswith("/")]


def make_root(root, program, libc):
    (root / "proc").mkdir()
    (root / "sys").mkdir()
    (root / "tmp").mkdir()
    shutil.copy(program, root / "gpusnoop_exporter")
    shutil.copy(CONFIG, root / "config.yaml")
    for path in map(pathlib.Path, needed(program)):
        source = path
        if libc != "here":
            source = next(pathlib.Path(libc).glob(f"**/{path.name}")).resolve()
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def inside(root, *arguments):
    return ["chroot", root, "/gpusnoop_exporter", *arguments]


def check_commands(root, program):
    for command in (["--version"], ["check-config", "--config.file=/config.yaml"]):
        here = run(program, *[word.replace("=/config", f"={CONFIG.parent}/config") for word in command])
        there = run(*inside(root, *command))
        if there.returncode != 0 or there.stdout.replace("/config.yaml", str(CONFIG)) != here.stdout:
            raise SystemExit(f"{command} in {root}: {there}\nhere: {here}")
    wrong = run(*inside(root, "check-config", "--config.file=/nowhere.yaml"))
    if wrong.returncode != 1:
        raise SystemExit(f"a configuration that is missing: {wrong}")
    # Without libcurl, there are only plain requests to addresses.
    for address, sentence in (("http://127.0.0.1:1", "Connection refused"), ("https://127.0.0.1:1", "need libcurl")):
        top = run(*inside(root, "top", "--once", f"--address={address}"))
        if top.returncode == 0 or sentence not in top.stderr:
            raise SystemExit(f"top without libcurl at {address}: {top}")


def of_workload(page):
    """What was counted of the program, without times and what depends on them."""
    return sorted(line for line in page.splitlines()
                  if 'comm="barely"' in line and not re.search("seconds|bandwidth", line) and line.startswith("gpusnoop_cuda_"))


def check_page(root, program, standin):
    enter = ["unshare", "--mount", "sh", "-c",
             'mount --rbind /proc "$0/proc" && mount --rbind /sys "$0/sys" && exec chroot "$0" "$@"', root,
             "/gpusnoop_exporter", "--config.file=/config.yaml"]
    go = root / "tmp/go"
    with Serving(program, f"--config.file={CONFIG}") as here, Serving(*enter) as there, subprocess.Popen(
            [standin / "workload", "--name", "barely", "--iterations", "300", "--failures", "--leak", "1000", "--hold",
             "--wait-for-file", go], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as workload:
        try:
            # Other programs may use other files of these names.
            for exporter in here, there:
                for library in "12/libcudart.so.12", "driver/libcuda.so.1":
                    inode = (standin / library).stat().st_ino
                    eventually(f"attached to {library}: {exporter.log()}",
                               lambda: re.search(f'msg="attached" probe=cuda .*inode={inode} ', exporter.log()))
            go.touch()
            eventually("the workload is counted here", lambda: len(of_workload(here.page())) > 10)
            try:
                eventually("both pages are the same", lambda: of_workload(here.page()) == of_workload(there.page()))
            except SystemExit:
                print(*sorted(set(of_workload(here.page())) ^ set(of_workload(there.page()))), sep="\n")
                raise
            print(f"{len(of_workload(there.page()))} series of the program are the same")
            # Without libcurl, as in the image.
            for command, code, found in ((["top", "--once"], 0, "barely"),
                                         (["why", "--duration=1s", "--comm=of-nobody"], 1, "nothing matches --comm=of-nobody")):
                asked = run(*inside(root, *command, f"--address={there.url}"))
                if asked.returncode != code or found not in asked.stdout + asked.stderr:
                    raise SystemExit(f"{command} without libcurl: {asked}")
        finally:
            workload.kill()


def main():
    program, standin, *libcs = sys.argv[1:]
    if os.geteuid() != 0:
        print("this needs root, for a chroot and for BPF")
        return 1 if os.environ.get("CI") else SKIPPED
    for libc in libcs:
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            make_root(root, program, libc)
            check_commands(root, program)
            check_page(root, program, pathlib.Path(standin))
            print(f"with the C library of {libc}: {run(*inside(root, '--version')).stdout.splitlines()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
