#!/usr/bin/env python3
"""The lint of the dashboards accepts ours, and refuses one that breaks a rule, by that rule.

lint_test.py PROMTOOL
"""

import copy
import json
import pathlib
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "dashboards"))

# pylint: disable=wrong-import-position
import generate
import lint
from checks import dashboard as walk
from checks import metrics, promql, rules
from source import promql as source

PROMTOOL = None
GOOD = {name: json.loads(text) for name, text in generate.files().items()}
DOCUMENTED = (SOURCE / "docs" / "metrics.md").read_text(encoding="utf-8")
PENDING_FILE = SOURCE / "dashboards" / "pending_metrics.md"
PENDING = PENDING_FILE.read_text(encoding="utf-8") if PENDING_FILE.exists() else ""
UNSHOWN = json.loads((SOURCE / "dashboards" / "unshown.json").read_text(encoding="utf-8"))
CHANGED = "gpusnoop-cuda-memory.json"


def panel(dashboard, title="GPU memory held by process"):
    return next(one for one in walk.panels(dashboard) if one["title"] == title)


def ask(expression, title="GPU memory held by process"):
    """Has a panel ask this instead."""
    def change(dashboard):
        panel(dashboard, title)["targets"][0].update(expr=expression, legendFormat="__auto")
    return change


def second(expression, title):
    """Has the second query of a panel ask this instead."""
    def change(dashboard):
        panel(dashboard, title)["targets"][1]["expr"] = expression
    return change


def variable(name, **values):
    def change(dashboard):
        walk.variables(dashboard)[name].update(values)
    return change


def without_variable(name):
    def change(dashboard):
        dashboard["templating"]["list"] = [one for one in dashboard["templating"]["list"]
                                           if one["name"] != name]
    return change


def question(name, query):
    def change(dashboard):
        walk.variables(dashboard)[name]["query"]["query"] = query
    return change


def of_panel(**values):
    return lambda dashboard: panel(dashboard).update(values)


def unit(value, title="GPU memory held by process"):
    return lambda dashboard: panel(dashboard, title)["fieldConfig"]["defaults"].update(unit=value)


def without_no_value(dashboard):
    del panel(dashboard)["fieldConfig"]["defaults"]["noValue"]


def legend(text):
    return lambda dashboard: panel(dashboard)["targets"][0].update(legendFormat=text)


def column(name):
    def change(dashboard):
        options = panel(dashboard, "Call sites")["transformations"][-1]["options"]
        options["indexByName"][name] = 9
    return change


def target_datasource(dashboard):
    panel(dashboard)["targets"][0]["datasource"] = {"type": "prometheus", "uid": "P1809F7CD0C75ACF3"}


def one_place(dashboard):
    panel(dashboard)["gridPos"] = dict(panel(dashboard, "Memory held by kind")["gridPos"])


def dashboard_values(**values):
    return lambda dashboard: dashboard.update(values)


def link(url):
    return lambda dashboard: panel(dashboard)["fieldConfig"]["defaults"].update(
        links=[{"title": "there", "url": url}])


CHOSEN = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'
HELD = "gpusnoop_cuda_memory_outstanding_bytes{%s}"
ALLOCATIONS = "gpusnoop_cuda_memory_allocations_total{%s}" % CHOSEN
BANDWIDTHS = "gpusnoop_cuda_memcpy_bandwidth_bytes_per_second"
COPY_SIZES = "gpusnoop_cuda_memcpy_size_bytes"

BROKEN = [
    ("template-datasource", without_variable("datasource")),
    ("template-datasource", variable("datasource", query="loki")),
    ("template-datasource", variable("datasource", label="source")),
    ("template-job", without_variable("job")),
    ("template-job", variable("job", label="Job")),
    ("template-job", variable("job", multi=False)),
    ("template-job", variable("job", allValue=None)),
    ("template-job", variable("job", datasource={"type": "prometheus", "uid": "mine"})),
    ("template-instance", without_variable("instance")),
    ("template-instance", variable("instance", allValue=".*")),
    ("template-cluster", without_variable("cluster")),
    ("template-cluster", variable("cluster", allValue=".+")),
    ("template-label-promql", question("comm", "label_values(gpusnoop_nothing, comm)")),
    ("template-label-promql", question("comm", "label_values(gpusnoop_build_info, comm)")),
    ("template-label-promql", question("comm", "label_values(gpusnoop_build_info{, job)")),
    ("template-label-promql", question("comm", "metrics(gpusnoop.*)")),
    ("template-on-time-change-reload", variable("comm", refresh=1)),
    ("panel-datasource", of_panel(datasource={"type": "prometheus", "uid": "P1809F7CD0C75ACF3"})),
    ("panel-datasource", target_datasource),
    ("panel-title-description", of_panel(title="")),
    ("panel-title-description", of_panel(title="Memory held by kind")),
    ("panel-title-description", of_panel(description="")),
    ("panel-title-description", of_panel(description="memory")),
    ("panel-units", unit(None)),
    ("panel-units", unit("byte")),
    ("panel-units", unit("short", "Call sites")),
    ("panel-no-targets", of_panel(targets=[])),
    ("target-promql", ask("sum(")),
    ("target-promql", ask("sum by comm) (%s)" % HELD % CHOSEN)),
    ("target-promql", ask("{%s}" % CHOSEN)),
    ("target-promql", ask("gpusnoop_cuda_memory_outstanding_bytes{job=$job}")),
    ("target-promql", ask("1 + 1")),
    ("target-rate-interval", ask(f"sum(rate({ALLOCATIONS}[5m]))")),
    ("target-rate-interval", ask(f"sum(rate({ALLOCATIONS}[$__range]))")),
    ("target-rate-interval", ask(f"sum(increase({ALLOCATIONS}[1h]))")),
    ("target-rate-interval", ask(f"topk(1, rate({ALLOCATIONS}[$__rate_interval]))", "Call sites")),
    ("target-cluster", ask(HELD % 'job=~"$job", instance=~"$instance"')),
    ("joins-cluster", ask(f"{HELD % CHOSEN} * on (job, instance) {HELD % CHOSEN}")),
    ("programs-apart", ask(f"sum by (instance, comm) ({HELD % CHOSEN})")),
    ("steady-lines", ask(f"topk(10, sum by (gpu) ({HELD % CHOSEN}))")),
    ("bounded-tables", ask(HELD % CHOSEN, "Call sites")),
    ("bounded-tables", second(HELD % CHOSEN, "Call sites")),
    ("nothing-is-said", without_no_value),
    ("target-job", ask(HELD % 'instance=~"$instance"')),
    ("target-job", ask(HELD % 'job="gpusnoop", instance=~"$instance"')),
    ("target-job", ask('up{instance=~"$instance"}')),
    ("target-instance", ask(HELD % 'job=~"$job"')),
    ("target-instance", ask(HELD % 'job=~"$job", instance=~"$job"')),
    ("target-counter-agg", ask(ALLOCATIONS)),
    ("target-rate-interval", ask(f"sum(rate({ALLOCATIONS}[5m] @ end()))")),
    ("target-counter-agg", ask(f"max_over_time({ALLOCATIONS}[$__rate_interval])")),
    ("target-counter-agg", ask(f"sum(rate({HELD % CHOSEN}[$__rate_interval]))")),
    ("target-counter-agg", ask(f"sum by (le) ({BANDWIDTHS}_bucket{{{CHOSEN}}})")),
    ("off-by-default", ask(f"sum by (le) (rate({COPY_SIZES}_bucket{{{CHOSEN}}}[$__rate_interval]))")),
    ("uneditable-dashboard", dashboard_values(editable=True)),
    ("metric-exists", ask(f"gpusnoop_cuda_memory_held_bytes{{{CHOSEN}}}")),
    ("metric-exists", ask(f"{BANDWIDTHS}{{{CHOSEN}}}")),
    ("metric-exists", ask(f"gpusnoop_cuda_memory_outstanding_bytes_bucket{{{CHOSEN}}}")),
    ("metric-exists", ask(HELD % f'{CHOSEN}, programme="x"')),
    ("metric-exists", ask(f"sum by (programme) ({HELD % CHOSEN})")),
    ("metric-exists", ask(f"sum by (le) ({HELD % CHOSEN})")),
    ("legend-labels", legend("{{device}}")),
    ("legend-labels", legend("{{kind}}")),
    ("legend-labels", column("kind")),
    ("legend-labels", column("Value")),
    ("legend-labels", column("Value #C")),
    ("layout", one_place),
    ("layout", of_panel(gridPos={"x": 20, "y": 100, "w": 5, "h": 8})),
    ("layout", of_panel(id=1)),
    ("conventions", dashboard_values(id=17)),
    ("conventions", dashboard_values(schemaVersion=22)),
    ("conventions", dashboard_values(schemaVersion=42)),
    ("conventions", dashboard_values(tags=["cuda"])),
    ("conventions", dashboard_values(description="")),
    ("conventions", dashboard_values(graphTooltip=0)),
    ("conventions", dashboard_values(timezone="utc")),
    ("conventions", dashboard_values(refresh="")),
    ("conventions", dashboard_values(links=[])),
    ("conventions", dashboard_values(annotations={"list": []})),
    ("data-links", link("/d/gpusnoop-nodes?var-job=$job")),
    ("data-links", link("/d/gpusnoop-node?var-job=$job&var-comm=x")),
    ("data-links", link("/d/gpusnoop-node?${job:queryparam}&${comm:queryparam}")),
]


def complaints(dashboards, documented=DOCUMENTED, pending=PENDING, unshown=None, promtool=None):
    with tempfile.TemporaryDirectory() as directory:
        there = pathlib.Path(directory)
        (there / "grafana").mkdir()
        for name, dashboard in dashboards.items():
            (there / "grafana" / name).write_text(json.dumps(dashboard), encoding="utf-8")
        (there / "metrics.md").write_text(documented, encoding="utf-8")
        (there / "pending.md").write_text(pending, encoding="utf-8")
        (there / "unshown.json").write_text(
            json.dumps(UNSHOWN if unshown is None else unshown), encoding="utf-8")
        return lint.lint(there / "grafana", promtool, there / "metrics.md", there / "pending.md",
                         there / "unshown.json")


def changed(change):
    dashboards = copy.deepcopy(GOOD)
    change(dashboards[CHANGED])
    return dashboards


class Lint(unittest.TestCase):
    def test_ours_are_right(self):
        self.assertEqual(complaints(GOOD, promtool=PROMTOOL), [])

    def test_a_broken_one_is_refused_by_its_rule(self):
        known = lint.Known(DOCUMENTED, PENDING, GOOD)
        for index, (rule, change) in enumerate(BROKEN):
            with self.subTest(rule=rule, index=index):
                dashboard = copy.deepcopy(GOOD[CHANGED])
                change(dashboard)
                found = list(lint.one_dashboard(dashboard, known))
                self.assertTrue([one for one in found if one.startswith(f"{rule}: ")], found)

    def test_a_file_has_the_name_of_its_uid(self):
        found = complaints(changed(dashboard_values(uid="gpusnoop-memory")))
        self.assertIn(f"file-name: {CHANGED} has the uid gpusnoop-memory", found)

    def test_every_rule_is_broken_once(self):
        self.assertEqual({rule for rule, _ in BROKEN}, rules.ALL.keys())

    def test_what_only_a_parser_sees(self):
        # A regular expression, a function and a type that are none.
        dashboards = copy.deepcopy(GOOD)
        wrong = {"GPU memory held by process": HELD % f'{CHOSEN}, comm=~"("',
                 "Memory held by kind": f"summ({HELD % CHOSEN})",
                 "Allocations": f"sum(rate({ALLOCATIONS}))",
                 "Failing allocations": f"{HELD % CHOSEN} / / 2"}
        for title, expression in wrong.items():
            ask(expression, title)(dashboards[CHANGED])
        found = complaints(dashboards, promtool=PROMTOOL)
        for title in wrong:
            self.assertTrue([one for one in found if f"{CHANGED}: promtool: {title!r}: " in one], found)

    def test_a_family_that_is_nowhere_is_named(self):
        added = DOCUMENTED + "| `gpusnoop_new_total` | counter | `comm` | New. |\n"
        self.assertEqual(complaints(GOOD, documented=added),
                         ["family-shown: gpusnoop_new_total is in no dashboard, and not in unshown.json"])
        self.assertEqual(complaints(GOOD, documented=added,
                                    unshown=UNSHOWN | {"gpusnoop_new_total": "It is new."}), [])
        self.assertEqual(len(complaints(GOOD, documented=added,
                                        unshown=UNSHOWN | {"gpusnoop_new_total": " "})), 1)

    def test_a_family_whose_panel_goes_is_named(self):
        dashboards = copy.deepcopy(GOOD)
        panels = dashboards[CHANGED]["panels"]
        panels[:] = [one for one in panels if one["title"] != "Call sites"]
        self.assertIn("family-shown: gpusnoop_cuda_memory_site_outstanding_bytes is in no dashboard, "
                      "and not in unshown.json", complaints(dashboards))

    def test_lists_do_not_go_stale(self):
        listed = UNSHOWN | {"gpusnoop_build_info": "A reason.", "gpusnoop_gone": "A reason."}
        self.assertEqual(complaints(GOOD, unshown=listed), [
            "family-shown: unshown.json lists gpusnoop_build_info, which is shown or does not exist",
            "family-shown: unshown.json lists gpusnoop_gone, which is shown or does not exist"])
        there = PENDING + next(
            line for line in DOCUMENTED.splitlines() if "gpusnoop_build_info" in line)
        self.assertEqual(complaints(GOOD, pending=there), [
            "pending: docs/metrics.md has gpusnoop_build_info now: take it out of pending_metrics.md"])

    def test_no_dashboards_are_not_right_and_too_large_ones_neither(self):
        self.assertEqual(len(complaints({})), 1)
        self.assertRegex(complaints(changed(dashboard_values(description="x" * 2**20)))[-1], "^size: .* ConfigMap$")

    def test_a_rule_needs_no_family_that_is_off_by_default(self):
        known = lint.Known(DOCUMENTED, PENDING, GOOD)
        with tempfile.TemporaryDirectory() as directory:
            rule = pathlib.Path(directory, "gpusnoop_one.yaml")
            rule.write_text(f"expr: rate({BANDWIDTHS}_sum[5m]) > program:{COPY_SIZES}:mean5m", encoding="utf-8")
            self.assertEqual(list(lint.rules_without_data(known, rule.parent)), [])
            rule.write_text(f"expr: rate({COPY_SIZES}_sum[5m])", encoding="utf-8")
            self.assertEqual(list(lint.rules_without_data(known, rule.parent)),
                             [f"gpusnoop_one.yaml: off-by-default: {COPY_SIZES} is off by default"])

    def test_committed_files_are_what_the_source_makes(self):
        with tempfile.TemporaryDirectory() as directory:
            there = pathlib.Path(directory)
            made = generate.files()
            for name, text in made.items():
                (there / name).write_text(text, encoding="utf-8")
            self.assertEqual(list(generate.stale(there, made)), [])
            (there / CHANGED).write_text(made[CHANGED] + "\n", encoding="utf-8")
            (there / "gpusnoop-node.json").unlink()
            (there / "by-hand.json").write_text("{}", encoding="utf-8")
            self.assertEqual(sorted(generate.stale(there, made)), [
                "by-hand.json has no source", f"{CHANGED} is not what its source makes",
                "gpusnoop-node.json is missing"])


class Queries(unittest.TestCase):
    """What dashboards/source/promql.py makes of an expression."""

    def test_lines_are_chosen_by_all_of_the_range(self):
        self.assertEqual(source.lines(3, "sum by (gpu) (rate(x_total{a=~\"b\"}[$__rate_interval])) / sum by (gpu) (y{})"),
                         'sum by (gpu) (rate(x_total{a=~"b"}[$__rate_interval])) / sum by (gpu) (y{})\n'
                         '  and topk(3, sum by (gpu) (rate(x_total{a=~"b"}[$__range] @ end())) / '
                         'sum by (gpu) (max_over_time(y{}[$__range] @ end())))')

    def test_lines_that_are_chosen_at_the_end(self):
        self.assertEqual(source.lines_at_end(2, "sum by (a) (rate(x{}[$__rate_interval])) / y{}"),
                         "sum by (a) (rate(x{}[$__rate_interval])) / y{}\n"
                         "  and topk(2, sum by (a) (rate(x{}[$__rate_interval] @ end())) / y{} @ end())")

    def test_which_pod_it_is_is_asked_of_one_moment(self):
        self.assertEqual(source.lines(1, "x{} * on (container_id) a:b:info{}"),
                         "x{} * on (container_id) a:b:info{}\n"
                         "  and topk(1, max_over_time(x{}[$__range] @ end()) * on (container_id) a:b:info{} @ end())")

    def test_what_ended_in_the_range_is_no_growth_of_the_others(self):
        self.assertEqual(source.growth("gpu", 'x{a="b"}'),
                         'sum by (gpu) (x{a="b"})\n'
                         '  - (sum by (gpu) (x{a="b"} offset $__range) or 0 * sum by (gpu) (x{a="b"}))')

    def test_what_began_in_the_range_has_not_grown(self):
        self.assertEqual(source.growth_of_each("pid", 'x{a="b"}'),
                         '(sum by (pid) (x{a="b"})\n'
                         '  - sum by (pid) (x{a="b"} offset $__range)\n  or 0 * sum by (pid) (x{a="b"}))')

    def test_short_names_in_legends(self):
        self.assertEqual(source.named("x", "{{instance}}"), "x")
        node = source.named("x", "GPU {{node}}")
        self.assertEqual(node, 'label_replace(x, "node", "$1", "instance", "(.+?)(:[0-9]+)?")')

        def shown(legend, **labels):
            for made, short, label, values in re.findall(r'"(\w+)", "(\S+)", "(\w+)", "([^"]+)"', source.named("x", legend)):
                if match := re.fullmatch(values, labels.get(label, "")):
                    labels[made] = match.expand(short.replace("$", "\\"))
            return re.sub(r"{{(\w+)}}", lambda match: labels[match[1]], legend)
        for script, short in (("", "python3"), ("train.py", "train.py"), ("ipykernel_launcher", "ipykernel_launcher"),
                              ("vllm.entrypoints.openai.api_server", "openai.api_server"), ("torch.distributed.run", "distributed.run")):
            self.assertEqual(shown("{{program}}", comm="python3", script=script), short)
        self.assertEqual(shown("{{node}}", instance="10.0.0.1:19435"), "10.0.0.1")
        self.assertEqual(shown("{{node}}", instance="n1"), "n1")

    def test_labels_that_belong_together(self):
        self.assertEqual(source.wide("cluster, instance, comm, pid"),
                         "cluster, job, instance, comm, script, slurm_job_id, pid")

    def test_other_queries_have_the_lines_of_the_first(self):
        self.assertEqual(source.within("instance", "topk(1, x)", "y"),
                         ("topk(1, x)", "(y)\n  and on (cluster, job, instance) (topk(1, x))"))


class Alerts(unittest.TestCase):
    def test_each_has_its_summary(self):
        named = {name for path in (SOURCE / "dashboards" / "rules" / "source").glob("*.yaml")
                 for name in re.findall(r"- alert: (\w+)", path.read_text("utf-8"))}
        shown = next(one["properties"] for one in panel(GOOD["gpusnoop-overview.json"], "Firing alerts")["fieldConfig"]["overrides"]
                     if one["matcher"]["options"] == "summary")
        texts = next(one["value"] for one in shown if one["id"] == "mappings")[0]["options"]
        self.assertEqual(texts.keys(), named)
        self.assertEqual(texts["GpusnoopCudaOutOfMemory"]["text"], "A program ran out of GPU memory.")
        self.assertNotIn('"', texts["GpusnoopNcclHang"]["text"], "it has quotes in its file")
        self.assertEqual([one["text"] for one in texts.values() if len(one["text"]) > 61], [], "the column cuts them off")


class Promql(unittest.TestCase):
    def test_what_a_query_reads(self):
        query = promql.read('sum by (a, b) (rate(x_total{c="}", d!~"e"}[5m])) * on (f) group_left (g) '
                            'label_replace(y offset 1h, "h", "$1", "i", "(.+)") / (z > bool 1e-9) and w')
        self.assertEqual([(one.metric, one.function, one.window) for one in query.selectors],
                         [("x_total", "rate", "5m"), ("y", "label_replace", ""), ("z", "", ""),
                          ("w", "", "")])
        self.assertEqual(query.selectors[0].matchers, {"c": ("=", "}"), "d": ("!~", "e")})
        self.assertEqual((query.grouped_by, query.other_labels, query.replaced),
                         ({"a", "b", "g"}, {"f"}, {"h"}))

    def test_labels_that_are_made(self):
        query = promql.read('label_join(label_replace(x, "a", "$1", "b", "(.+)"), "c", " ", "d", "e") + y')
        self.assertEqual((query.replaced, [one.metric for one in query.selectors]), ({"a", "c"}, ["x", "y"]))

    def test_what_is_read_at_the_end_of_the_range(self):
        query = promql.read("x and topk(2, rate(y_total[$__range] @ end())) unless on (a) z offset $__range")
        self.assertEqual([(one.metric, one.at_end) for one in query.selectors],
                         [("x", False), ("y_total", True), ("z", False)])
        self.assertEqual(query.matched_on, [{"a"}])

    def test_what_the_rules_record(self):
        made = metrics.recorded("""groups:
  - rules:
      - record: instance:a:sum
        expr: sum by (cluster, job, instance, gpu) (a)
      - record: job:a:sum
        expr: |
          sum without (instance) (instance:a:sum)
            / 2
""")
        self.assertEqual(made, {"instance:a:sum": {"cluster", "job", "instance", "gpu"},
                                "job:a:sum": {"cluster", "job", "gpu"}})

    def test_grouping_after_the_argument(self):
        query = promql.read("max(x) without (a) + sum(y) by (b)")
        self.assertEqual([one.function for one in query.selectors], ["max", "sum"])
        self.assertEqual((query.grouped_by, query.other_labels), ({"b"}, {"a"}))

    def test_what_is_no_query(self):
        for wrong in ("x{", "x{a}", 'x{a="b" c="d"}', "x)", "(x", "x[5m", "sum by a (x)", 'x{a=b}', "?"):
            with self.subTest(wrong=wrong), self.assertRaises(promql.NotPromql):
                promql.read(wrong)


if __name__ == "__main__":
    PROMTOOL = sys.argv.pop(1)
    if not pathlib.Path(PROMTOOL).exists():
        sys.exit(f"{PROMTOOL} is not there: scripts/setup.sh --tests fetches it")
    unittest.main()
