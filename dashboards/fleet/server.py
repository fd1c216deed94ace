"""A Prometheus that only answers: of what was backfilled, it scrapes nothing and evaluates no rules."""

import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from checks import prometheus


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """`with Server(tools, data) as source`: the Prometheus in `tools`, on the blocks in `data`."""

    def __init__(self, tools, data, listen=None):
        self.tools, self.data = pathlib.Path(tools), pathlib.Path(data)
        self.listen = listen or f"127.0.0.1:{free_port()}"
        self.address = f"http://127.0.0.1:{self.listen.rpartition(':')[2]}"
        self.process = self.log = None

    def __enter__(self):
        self.log = tempfile.TemporaryFile()
        config = self.data / "prometheus.yml"
        config.write_text("global: {}\n", encoding="utf-8")
        self.process = subprocess.Popen(
            [self.tools / "prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.data}",
             f"--web.listen-address={self.listen}", "--storage.tsdb.retention.time=100y",
             # Blocks stay as they are: merging them takes longer than what they are for.
             "--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h", "--log.level=warn"],
            stdout=self.log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 30
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError("Prometheus did not start: " + self.said)
            time.sleep(0.1)
        return prometheus.Prometheus(self.address)

    def _ready(self):
        try:
            with urllib.request.urlopen(f"{self.address}/-/ready", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.seek(0)
        self.said = self.log.read().decode(errors="replace")
        self.log.close()
