#!/usr/bin/env python3
"""The fleet of dashboards/fleet: all our families, counters that only rise, histograms that agree with themselves."""

import collections
import io
import json
import math
import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True
DASHBOARDS = pathlib.Path(__file__).resolve().parents[2] / "dashboards"
sys.path.insert(0, str(DASHBOARDS))

# pylint: disable=wrong-import-position
from fleet import node, past
from fleet.generate import Fleet

EXPORTER = DASHBOARDS.parent / "exporter"
END, HOURS, STEP = 1_700_006_400, 1, 300


def text_of(fleet):
    file = io.StringIO()
    fleet.write(file)
    return file.getvalue()


class Samples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(END, HOURS, STEP)
        cls.text = text_of(cls.fleet)
        cls.series = collections.defaultdict(list)
        for line in cls.text.splitlines()[:-1]:
            head, value, time = line.rsplit(" ", 2)
            cls.series[head].append((int(time), float(value)))

    def kind(self, head):
        return self.fleet.catalog.family(head.partition("{")[0])

    def test_all_families_that_dashboards_show_are_there(self):
        unshown = json.loads((DASHBOARDS / "unshown.json").read_text(encoding="utf-8"))
        self.assertLessEqual(set(self.fleet.catalog.families) - self.fleet.families, set(unshown))

    def test_nodes_have_all_probes(self):
        kinds = "".join(file.read_text(encoding="utf-8") for file in (EXPORTER / "probes").glob("*/probe.cpp"))
        self.assertEqual(set(node.PROBES), set(re.findall(r'const ProbeKind \w+_kind = \{\s*\.name = "(\w+)"', kinds)))

    def test_nodes_have_all_features_of_kernels(self):
        tried = (EXPORTER / "ebpf/features.cpp").read_text(encoding="utf-8")
        measured = (EXPORTER / "ebpf/calibration.h").read_text(encoding="utf-8")
        names = re.findall(r'\bverdict\(\s*"(\w+)"|std::string_view \w+ = "(\w+)"', tried)
        self.assertEqual(set(node.FEATURES), {name or other for name, other in names} |
                         set(re.findall(r'Feature feature_\{"(\w+)"', measured)))

    def test_the_same_end_gives_the_same_text(self):
        self.assertEqual(text_of(Fleet(END, HOURS, STEP)), self.text)

    def test_samples_are_in_order_and_not_beyond_the_end(self):
        for head, points in self.series.items():
            times = [time for time, _ in points]
            self.assertEqual(times, sorted(set(times)), head)
            self.assertLessEqual(END - HOURS * 3600, times[0], head)
            self.assertLessEqual(times[-1], END, head)

    def test_counters_only_rise(self):
        fell = set()
        for head, points in self.series.items():
            family = self.kind(head)
            if not family or family.type == "gauge":
                continue
            for (_, before), (time, after) in zip(points, points[1:]):
                self.assertGreaterEqual(after, 0, head)
                if after < before:
                    self.assertIn('instance="gpu-a05:', head)
                    fell.add(time)
        self.assertEqual(len(fell), 1, "only one exporter starts again, once")

    def test_histograms_agree_with_themselves(self):
        histograms = collections.defaultdict(dict)
        for head in self.series:
            family = self.kind(head)
            if family and family.type == "histogram":
                name, _, rest = head.partition("{")
                labels, _, bound = rest.rstrip("}").partition(',le="')
                of_one = histograms[family.name, labels]
                of_one[float(bound.rstrip('"').replace("+Inf", "inf")) if bound else name] = self.series[head]
        self.assertGreater(len(histograms), 100)
        for (name, labels), parts in histograms.items():
            bounds = sorted(bound for bound in parts if isinstance(bound, float))
            self.assertEqual(bounds[-1], math.inf, name)
            self.assertEqual(parts[bounds[-1]], parts[f"{name}_count"], labels)
            for lower, upper in zip(bounds, bounds[1:]):
                for (_, less), (_, more) in zip(parts[lower], parts[upper]):
                    self.assertLessEqual(less, more, (name, labels, upper))
            self.assertEqual(len(parts[f"{name}_sum"]), len(parts[f"{name}_count"]))

    def test_what_is_freed_was_allocated(self):
        for head, points in self.series.items():
            name, _, labels = head.partition("{")
            if name == "gpusnoop_cuda_memory_freed_bytes_total":
                allocated = self.series[f"gpusnoop_cuda_memory_allocated_bytes_total{{{labels}"]
                for (_, freed), (_, all_of_it) in zip(points, allocated):
                    self.assertLessEqual(freed, all_of_it, labels)

    def test_two_clusters_have_nodes_of_the_same_names(self):
        both = text_of(Fleet(END, 0.5, 600, 2))
        for cluster in "berlin", "paris":
            self.assertIn(f'up{{cluster="{cluster}",job="gpusnoop",instance="gpu-a01:19435"}}', both)


class Alerts(unittest.TestCase):
    def test_states_are_those_of_prometheus(self):
        def of(true, pending_for, keep=0):
            return [(state or "-")[0] for state in past.states(range(0, 600, 60), true, pending_for, keep)]
        self.assertEqual("".join(of({60, 120, 180, 240}, 120)), "-ppff-----")
        self.assertEqual("".join(of({60, 120, 240}, 0)), "-ff-f-----")
        self.assertEqual("".join(of({60, 120}, 0, 180)), "-ffff-----")
        self.assertEqual("".join(of({60, 180}, 120)), "-p-p------")

    def test_an_alert_is_active_since_it_was_pending(self):
        self.assertEqual(list(past.since(range(0, 300, 60), (None, "pending", "firing", None, "pending"))),
                         [(60, 60), (120, 60), (240, 240)])

    def test_rules_come_after_what_they_rest_on(self):
        rules = [{"record": "c", "expr": "sum(a:b) + b"}, {"record": "b", "expr": "rate(x[5m])"},
                 {"record": "a:b", "expr": "sum(b)"}, {"alert": "d", "expr": "c > 0"}]
        self.assertEqual([[rule["record"] for rule in level] for level in past.levels(rules)], [["b"], ["a:b"], ["c"]])


if __name__ == "__main__":
    unittest.main()
