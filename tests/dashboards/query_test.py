#!/usr/bin/env python3
"""What dashboards/query.py complains about, with a Prometheus that answers as it is told."""

import http.server
import json
import math
import pathlib
import sys
import threading
import unittest
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "dashboards"))

# pylint: disable=wrong-import-position
import query
from checks import prometheus

NODES = ["a:1", "b.c:2"]
BOTH = '(a:1|b\\\\.c:2)'


def dashboard(*panels):
    variable = {"name": "instance", "type": "query", "query": {"query": "label_values(up, instance)"}}
    return {
        "uid": "d",
        "templating": {"list": [{"name": "datasource", "type": "datasource"}, variable]},
        "panels": [{"type": "row", "title": "row", "panels": list(panels)}],
    }


def panel(title, *expressions, instant=False):
    return {"title": title, "targets": [
        {"refId": chr(ord("A") + index), "expr": expression, "instant": instant}
        for index, expression in enumerate(expressions)]}


class Source:
    """A Prometheus that has one value for each query that it knows, else nothing."""

    def __init__(self, values, nodes=None):
        self.values, self.nodes, self.asked = values, NODES if nodes is None else nodes, []

    def now(self):
        return 1000.0

    def instant(self, expression, time):
        self.asked.append((expression, time))
        if expression == "refused":
            raise prometheus.Refused("parse error")
        return [({}, [(time, self.values[expression])])] if expression in self.values else []

    def over(self, expression, start, end, step):
        self.asked.append((expression, start, end, step))
        return self.instant(expression, end)

    def label_values(self, selector, label, start, end):
        self.asked.append((selector, label, start, end))
        return self.nodes


def complaints(panels, values, listed=None, nodes=None):
    asker = query.Asker(Source(values, nodes), 600, "20s")
    return list(query.check([dashboard(*panels)], asker, listed or {}))


class Check(unittest.TestCase):
    def test_data_is_right(self):
        self.assertEqual(complaints([panel("p", "x"), panel("q", "y", instant=True)],
                                    {"x": 0, "y": math.inf}), [])

    def test_no_data_is_a_mistake(self):
        self.assertEqual(complaints([panel("p", "x", "y")], {"x": 1}),
                         ["d: 'p', query B returns no data: y"])
        self.assertEqual(complaints([panel("p", "x")], {"x": math.nan}),
                         ["d: 'p', query A returns no data: x"])

    def test_what_is_listed_returns_none(self):
        panels = [panel("p", "x", "y")]
        self.assertEqual(complaints(panels, {}, {"d": {"p": "why"}}), [])
        self.assertEqual(complaints(panels, {"x": 1}, {"d": {"p / B": "why"}}), [])
        self.assertEqual(complaints(panels, {"x": 1}, {"d": {"p": "why"}}),
                         ["d: 'p', query A returns data, but is listed in no_data.json"])
        self.assertEqual(complaints(panels, {"x": 1, "y": 2}, {"d": {"p / B": "why"}}),
                         ["d: 'p', query B returns data, but is listed in no_data.json"])

    def test_what_only_some_machines_have_is_listed_on_the_others(self):
        listed = {"d": {"p": "why", "q": {"reason": "no such file", "unless": "/nowhere"},
                        "r": {"reason": "a file", "unless": "/proc/self"}}}
        self.assertEqual(query.on_this_machine(listed), {"d": {"p": "why", "q": "no such file"}})

    def test_the_list_is_of_what_there_is(self):
        self.assertEqual(complaints([panel("p", "x")], {"x": 1}, {"d": {"q": "why"}, "e": {"p": "why"}}),
                         ["no_data.json lists d: 'q', which there is not",
                          "no_data.json lists e: 'p', which there is not"])
        self.assertEqual(complaints([panel("p", "x")], {}, {"d": {"p": " "}}),
                         ["no_data.json gives no reason for d: 'p'"])

    def test_what_is_refused_is_a_mistake_even_if_listed(self):
        self.assertEqual(complaints([panel("p", "refused")], {}, {"d": {"p": "why"}}),
                         ["d: 'p', query A: Prometheus refuses it: parse error: refused"])

    def test_a_variable_without_values_is_a_mistake(self):
        self.assertEqual(complaints([panel("p", "x")], {"x": 1}, nodes=[]),
                         ["d: the variable instance has no values"])

    def test_all_values_of_a_label_that_some_series_lack_are_those_without_it_too(self):
        source = Source({'x{cluster=~".*"}': 1}, nodes=[])
        asker = query.Asker(source, 600, "20s")
        one = dashboard(panel("p", 'x{cluster=~"$cluster"}', instant=True))
        one["templating"]["list"] = [{"name": "cluster", "type": "query", "allValue": ".*",
                                      "query": {"query": "label_values(up, cluster)"}}]
        self.assertEqual(list(query.check([one], asker, {})), [])

    def test_variables_are_replaced_by_all_values(self):
        source = Source({})
        asker = query.Asker(source, 600, "20s")
        expression = 'rate(x{instance=~"$instance"}[$__rate_interval]) + y{i=~"${instance}"}[$__range]'
        list(query.check([dashboard(panel("p", expression, instant=True))], asker, {}))
        self.assertEqual(source.asked, [
            ("up", "instance", 400.0, 1000.0),
            (f'rate(x{{instance=~"{BOTH}"}}[20s]) + y{{i=~"{BOTH}"}}[600s]', 1000.0)])


class Http(unittest.TestCase):
    """The client, with a server that answers as Prometheus does."""

    def setUp(self):
        test = self
        self.paths = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                url = urllib.parse.urlsplit(self.path)
                test.paths.append((url.path, urllib.parse.parse_qs(url.query)))
                status, body = test.answer
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.source = prometheus.Prometheus(f"http://127.0.0.1:{self.server.server_port}/")

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()

    def test_a_range(self):
        self.answer = 200, {"status": "success", "data": {"resultType": "matrix", "result": [
            {"metric": {"a": "b"}, "values": [[1, "2"], [3, "NaN"], [4, "+Inf"]]}]}}
        (labels, points), = self.source.over("x + y", 1, 4, 1)
        self.assertEqual((labels, points[0], points[2]), ({"a": "b"}, (1, 2.0), (4, math.inf)))
        self.assertTrue(math.isnan(points[1][1]))
        self.assertEqual(self.paths, [("/api/v1/query_range", {
            "query": ["x + y"], "start": ["1"], "end": ["4"], "step": ["1"]})])

    def test_an_instant_and_labels(self):
        self.answer = 200, {"status": "success", "data": {"resultType": "vector", "result": [
            {"metric": {"a": "b"}, "value": [1, "2"]}]}}
        self.assertEqual(self.source.instant("x", 1), [({"a": "b"}, [(1, 2.0)])])
        self.answer = 200, {"status": "success", "data": ["one", "two"]}
        self.assertEqual(self.source.label_values('x{y="z"}', "job", 1, 2), ["one", "two"])
        self.assertEqual(self.paths[-1], ("/api/v1/label/job/values", {
            "match[]": ['x{y="z"}'], "start": ["1"], "end": ["2"]}))

    def test_a_refusal(self):
        self.answer = 400, {"status": "error", "error": "parse error"}
        with self.assertRaisesRegex(prometheus.Refused, "^parse error$"):
            self.source.instant("x", 1)


if __name__ == "__main__":
    unittest.main()
