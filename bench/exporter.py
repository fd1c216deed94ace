"""An exporter that a benchmark runs, and what its page says."""

import ctypes
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path


class Exporter:
    """It runs until the end of the block, and ends when this process does, however that ends."""

    def __init__(self, binary, folder, config):
        """`config`: the text of its config.yaml. That file and its log go to `folder`."""
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
        self.log.close()

    def said(self):
        return Path(self.log.name).read_text(encoding="utf-8")

    def page(self):
        with urllib.request.urlopen(self.address, timeout=60) as answer:
            return answer.read().decode()

    def total(self, family, label):
        """The sum of the family's series that have this label, such as 'comm="train"'."""
        return total_of(self.page(), family, label)


def total_of(page, family, label):
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines()
               if line.startswith(family + "{") and label in line)
