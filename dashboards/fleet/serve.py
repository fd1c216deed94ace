#!/usr/bin/env python3
"""The fleet of generate.py, whose last scrape was now, in a Prometheus that answers until it is stopped. Grafana reads
it with the dashboards of this folder, also as docker/fleet.yaml has both: docs/demo.md.

serve.py
"""

import argparse
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, __file__.rsplit("/", 2)[0])

# pylint: disable=wrong-import-position
from fleet.backfill import TOOLS, Backfill
from fleet.generate import Fleet
from fleet.server import Server


def addresses(server, grafana, clock):
    """Of the times that there is something to see at: soon nothing of it is from just now."""
    times = f"from={1000 * clock.start}&to={1000 * clock.end}"
    return f"Prometheus: {server.address}\nGrafana: {grafana}/d/gpusnoop-overview?{times}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=6)
    parser.add_argument("--step", type=int, default=30, help="seconds between scrapes")
    parser.add_argument("--tools", default=TOOLS, help="the folder of promtool and prometheus")
    parser.add_argument("--listen", default="127.0.0.1:9090", metavar="ADDRESS:PORT")
    parser.add_argument("--grafana", default="http://localhost:3000", help="where a browser finds it: for the address to open")
    arguments = parser.parse_args()
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(int(time.time()), arguments.hours, arguments.step)
        Backfill(arguments.tools, folder).all(fleet)
        with (server := Server(arguments.tools, folder, arguments.listen)):
            print(addresses(server, arguments.grafana, fleet.clock), flush=True)
            server.process.wait()
    print(f"Prometheus has ended: {server.said}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
