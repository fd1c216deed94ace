"""An exporter that a benchmark runs, and what its page says."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path


HELPER_SECONDS = 120


def wait_for_helper(pid):
    """Until the helper process of an exporter that has ended has detached what it was left: its probes still cost their programs, and it takes
    locks that the next exporter waits for."""
    until = time.monotonic() + HELPER_SECONDS
    while os.path.exists(f"/proc/{pid}"):
        if time.monotonic() > until:
            sys.exit(f"the exporter's helper process {pid} still detaches probes after {HELPER_SECONDS} s")
        time.sleep(0.05)


class Exporter:
    """It runs until the end of the block, and ends when this process does, however that ends."""

    def __init__(self, binary, folder, config, leaves_helper=False):
        """`config`: the text of its config.yaml. That file and its log go to `folder`. `leaves_helper`: its helper process may still detach probes
        after the block."""
        self.leaves_helper = leaves_helper
        file = Path(folder, "config.yaml")
        file.write_text(config, encoding="utf-8")
        libc = ctypes.CDLL(None)
        self.log = open(Path(folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [binary, f"--config.file={file}", "--web.listen-address=127.0.0.1:0"], stdout=subprocess.DEVNULL,
            stderr=self.log, preexec_fn=lambda: libc.prctl(1, signal.SIGKILL))

    def __enter__(self):
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            if found := re.search(r'msg="listening".* port=(\d+)', self.said()):
                self.address = f"http://127.0.0.1:{found[1]}/metrics"
                return self
            time.sleep(0.01)
        sys.exit(f"the exporter does not start: {self.said()}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        for pid in [] if self.leaves_helper else re.findall(r'msg="a helper process detaches.* pid=(\d+)', self.said()):
            wait_for_helper(pid)
        self.log.close()

    def said(self):
        return Path(self.log.name).read_text(encoding="utf-8")

    def page(self):
        with urllib.request.urlopen(self.address, timeout=60) as answer:
            return answer.read().decode()

    def total(self, family, label):
        """The sum of the family's series that have this label, such as 'comm="train"'."""
        return total_of(self.page(), family, label)


def total_of(page, family, *labels):
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines()
               if line.startswith(family + "{") and all(label in line for label in labels))
