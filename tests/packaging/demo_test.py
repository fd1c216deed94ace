#!/usr/bin/env python3
"""scripts/demo.sh as a new user meets it: the leak's message appears, by itself, and Ctrl-C leaves nothing behind.

demo_test.py SOURCE BUILD
"""
import glob
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PATIENCE = 300  # seconds
FASTER = 120    # half an hour is 15 seconds


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, holds):
    for _ in range(PATIENCE):
        if holds():
            return
        time.sleep(1)
    sys.exit(f"demo_test: waited {PATIENCE} s for {what}")


def left_behind(directory):
    """The command lines of programs of the demo that still run."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            line = pathlib.Path(path).read_bytes()
        except OSError:
            continue
        if str(directory).encode() in line:
            yield line.replace(b"\0", b" ").decode(errors="replace")


def main():
    source, build = (pathlib.Path(argument) for argument in sys.argv[1:])
    ports = {f"{name}_PORT": free_port() for name in ("EXPORTER", "PROMETHEUS", "ALERTMANAGER", "MESSAGES")}
    with tempfile.TemporaryDirectory() as directory, open(f"{directory}/log", "w+", encoding="utf-8") as log:
        demo = subprocess.Popen(
            [source / "scripts/demo.sh", "--build-dir", build, "--faster", str(FASTER)], stdout=log, stderr=log,
            env=os.environ | {name: str(port) for name, port in ports.items()} | {"TMPDIR": directory},
            start_new_session=True)

        def said(text):
            if demo.poll() is not None:
                sys.exit(f"demo_test: the demo ended:\n{pathlib.Path(log.name).read_text(encoding='utf-8')}")
            return text in pathlib.Path(log.name).read_text(encoding="utf-8")

        try:
            wait_for("the addresses", lambda: said("Ctrl-C stops it all"))
            wait_for("the message of the leak",
                     lambda: said("to owners: firing: GpusnoopDeviceMemoryLeak (warning)"))
            assert said("comm=train"), "the leak is of train"
            with urllib.request.urlopen(f"http://127.0.0.1:{ports['EXPORTER_PORT']}/metrics") as answer:
                page = answer.read().decode()
            for comm, gpu in (("train", 0), ("infer", 1)):
                rows = [line for line in page.splitlines()
                        if line.startswith("gpusnoop_cuda_memory_outstanding_bytes{") and f'comm="{comm}"' in line]
                assert rows and all(f'gpu="{gpu}"' in row for row in rows), rows
            # Other programs of the machine are on the page, too.
            infos = [line for line in page.splitlines()
                     if line.startswith("gpusnoop_process_info{") and f'exe="{build}/standin/demo"' in line]
            assert len(infos) == 2 and all('complete="true"' in line for line in infos), infos
            alerts = f"http://127.0.0.1:{ports['PROMETHEUS_PORT']}/classic/alerts"
            with urllib.request.urlopen(alerts) as answer:
                assert "GpusnoopDeviceMemoryLeak" in answer.read().decode(), alerts
        finally:
            os.killpg(demo.pid, signal.SIGINT)  # as a terminal does
            code = demo.wait(PATIENCE)
        assert code == 0, f"exit code {code}"
        # The process that detaches the probes on perf events takes a moment more.
        wait_for("the demo's programs to end", lambda: not list(left_behind(directory)))
        assert not glob.glob(f"{directory}/gpusnoop-*"), "a directory is left"


if __name__ == "__main__":
    main()
