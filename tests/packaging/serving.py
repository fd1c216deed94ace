"""An exporter that a test starts, in whatever root file system, and what it serves."""

import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request

PATIENCE = 60  # seconds, on a machine in use


def eventually(what, check):
    """The first result of check() that is true; an error that names `what` otherwise."""
    end = time.monotonic() + PATIENCE
    while not (result := check()):
        if time.monotonic() > end:
            raise SystemExit(f"never: {what}")
        time.sleep(0.1)
    return result


class Serving:
    """`command` with a free port added; ends with the block, and must then end in order."""

    def __init__(self, *command):
        self.command = [*map(str, command), "--web.listen-address=127.0.0.1:0"]
        self.log_file = tempfile.TemporaryFile(mode="w+")
        self.process = None
        self.url = None

    def log(self):
        # With a position of its own: the exporter writes at the end.
        return os.pread(self.log_file.fileno(), 1 << 24, 0).decode(errors="replace")

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=self.log_file)
        port = eventually(f"{self.command} listens", self.listening)
        self.url = f"http://127.0.0.1:{port}"
        return self

    def listening(self):
        if self.process.poll() is not None:
            raise SystemExit(f"{self.command} ended with {self.process.returncode}:\n{self.log()}")
        found = re.search(r'msg="?listening"?.* port=(\d+)', self.log())
        return found and found.group(1)

    def page(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def __exit__(self, *failure):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if failure == (None, None, None) and code != 0:
            raise SystemExit(f"{self.command} ended with {code}:\n{self.log()}")
        self.log_file.close()
