#!/usr/bin/env python3
"""Writes the series of a fleet that does not exist, as OpenMetrics: twelve nodes with our exporter, dcgm-exporter
and kube-state-metrics. Nothing of it depends on the clock or on chance: the same end gives the same series.

generate.py --end 1700000000 >fleet.om
"""

import argparse
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

# pylint: disable=wrong-import-position
from checks import metrics
from fleet import node as nodes
from fleet import others, tenants
from fleet.calls import Calls
from fleet.clock import Clock, wobble
from fleet.cuda import Cuda
from fleet.host import Host
from fleet.series import Store
from fleet.work import SystemCall

CLUSTERS = ("berlin", "paris")
METRICS = HERE.parents[1] / "docs/metrics.md"


class Fleet:
    """The series of all nodes of some clusters. `wanted`: of which names, or all."""

    def __init__(self, end, hours, step, clusters=1):
        self.clock = Clock(end, hours, step)
        self.catalog = metrics.Catalog(METRICS.read_text(encoding="utf-8"))
        self.stores, self.families = [], set()
        for cluster in CLUSTERS[:clusters]:
            self._add_cluster(cluster, hours * 3600.0)

    def _add_cluster(self, cluster, length):
        works = tenants.works(length)
        for one in works:
            one.cluster = cluster
        for node in tenants.nodes(length, cluster):
            of_node = [one for one in works if one.node == node.name]
            self._add_exporter(node, of_node)
            store = Store(self.clock)
            others.dcgm(store, node, of_node, self.clock)
            self.stores.append(store)
        store = Store(self.clock)
        others.kubernetes(store, works, cluster, self.clock)
        self.stores.append(store)

    def _add_exporter(self, node, works):
        clock, store = self.clock, Store(self.clock, self.catalog)
        store.target = node.target
        if node.restart is not None:
            store.restart = clock.index(node.restart + node.down)
            store.gaps = range(clock.index(node.restart), store.restart)
        events = {"pcie": clock.total(lambda second: 4.1, 86400), "nvlink": clock.total(lambda second: 4.6, 86400),
                  "fence": clock.total(wobble(node.name + " fences", 0.4), 86400)}
        for one in works:
            totals = {name: clock.total(rate, max(0.0, -one.start)) for name, rate in one.activities.items()}
            cuda = Cuda(store, one, totals)
            cuda.add()
            Calls(cuda).add()
            Host(cuda).add()
            for probe, calls in (("cuda", 900), ("functions", 700), ("syscall", 130)):
                if probe == "syscall" and not one.of(SystemCall):
                    continue
                counted = events.setdefault(probe, [0.0] * clock.count)
                events[probe] = [a + calls * sum(steps) for a, *steps in zip(counted, *totals.values())]
        nodes.gpus(store, node)
        nodes.driver(store, node)
        nodes.host(store, node)
        nodes.exporter(store, node, events)
        nodes.about_series(store)
        self.stores.append(store)
        self.families |= store.families

    def write(self, file, first=0, last=None):
        for store in self.stores:
            store.write(file, first, self.clock.count if last is None else last)
        file.write("# EOF\n")

    def size(self):
        return sum(len(store.series) for store in self.stores)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--end", type=int, required=True, metavar="SECONDS", help="of the last sample, since 1970")
    parser.add_argument("--hours", type=float, default=6)
    parser.add_argument("--step", type=int, default=30, help="seconds between scrapes")
    parser.add_argument("--clusters", type=int, choices=(1, 2), default=1, help="with the same names of nodes in each")
    arguments = parser.parse_args()
    fleet = Fleet(arguments.end, arguments.hours, arguments.step, arguments.clusters)
    fleet.write(sys.stdout)
    print(f"{fleet.size()} series, {fleet.clock.count} scrapes", file=sys.stderr)


if __name__ == "__main__":
    main()
