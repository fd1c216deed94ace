"""What all dashboards share: their names, variables, annotations and links."""

import pathlib
import re

from . import model
from .panels import Column, thresholds
from .promql import CHOSEN, IN_JOB, NODE as BY_NODE, PREFIX, lines, named, own, process

# A dashboard's address never changes: links of other people's lead there.
OVERVIEW = "gpusnoop-overview"
WORKLOAD = "gpusnoop-workload"
NODE = "gpusnoop-node"
MEMORY = "gpusnoop-cuda-memory"
COPIES = "gpusnoop-cuda-work"
FUNCTIONS = "gpusnoop-functions"
KERNEL = "gpusnoop-kernel"
HOST = "gpusnoop-host"
HEALTH = "gpusnoop-health"

ERROR_COLORS = thresholds("green", 1e-9, "red")
WARNING_COLORS = thresholds("green", 1e-9, "orange")
_THRESHOLDS = (pathlib.Path(__file__).resolve().parents[1] / "rules" / "source" / "thresholds.yaml").read_text("utf-8")


def limit(name):
    """From where on the alerts call something too much."""
    return re.search(rf"^{name}: \"?([^\s\"]+)", _THRESHOLDS, re.M)[1]


def limit_bytes(name):
    """The same, of a number of bytes such as 32MiB."""
    number, unit = re.fullmatch(r"(\d+)([KMG]iB)", limit(name)).groups()
    return int(number) * 1024 ** ("KMG".index(unit[0]) + 1)


RUNBOOKS = limit("runbooks")
# Of rates: some failing calls and some lost events are everywhere.
FAILING_COLORS = thresholds("text", float(limit("errors_per_second")), "red")
# Errors that mean "not ready" or "already done" are no failures, as for the alerts.
FAILED = f'error!~"{limit("errors_ignored")}"'
# A call that lasts for so long hangs, in the alert's words.
HANGS = {"s": 1, "m": 60, "h": 3600}[limit("hang_call")[-1]] * int(limit("hang_call")[:-1])
HANGING_COLORS = thresholds("text", HANGS, "orange")
LOST_COLORS = thresholds("green", float(limit("lost_share")), "orange")
GROWTH_COLORS = thresholds("text", limit_bytes("leak_growth"), "orange")

UP_MAPPING = [{"type": "value", "options": {
    "0": {"text": "down", "color": "red", "index": 0},
    "1": {"text": "up", "color": "green", "index": 1},
}}]
# Of the label state of probe_state. Only a probe that failed is a reason to act.
STATE_MAPPING = [{"type": "value", "options": {
    "failed": {"text": "failed", "color": "red", "index": 0},
    "unsupported": {"text": "unsupported", "color": "text", "index": 1},
    "disabled": {"text": "disabled", "color": "text", "index": 2},
    "up": {"text": "up", "color": "green", "index": 3},
}}]
STATE_COLORS = thresholds("text")
STATE_FAILED = 'state="failed"'
YES_MAPPING = [{"type": "value", "options": {
    "0": {"text": "no", "color": "text", "index": 0},
    "1": {"text": "yes", "color": "green", "index": 1},
}}]
# Of the label complete of process_info.
KNOWN_MAPPING = [{"type": "value", "options": {
    "true": {"text": "all", "index": 0},
    "false": {"text": "in part", "color": "orange", "index": 1},
}}]
VALID_MAPPING = [{"type": "value", "options": {
    "0": {"text": "invalid", "color": "red", "index": 0},
    "1": {"text": "valid", "color": "green", "index": 1},
}}]

_FIELD = "${__data.fields.%s:percentencode}"
_EXPORTER = "http://${__data.fields.node}/api/v1/"

# What a healthy fleet reads where there is nothing to show.
NEEDS_DCGM = "needs dcgm-exporter"
NEEDS_KUBE = "needs kube-state-metrics"


def node_cell(title="node"):
    """The link of a table's column of nodes."""
    return model.link_to(NODE, "This node", instance=_FIELD % title)


def program_cell(uid, title, node="node", program="program"):
    """Of this job alone: an empty one is that of the programs outside Slurm."""
    return model.link_to(uid, title, instance=_FIELD % node, comm=_FIELD % program,
                         slurm_job_id="${__data.fields['Slurm job']}")


def program_columns(link=None, script=None):
    """Two jobs of an interpreter are two lines. `script`: how wide that column is."""
    return [Column("comm", "program", link=link), Column("script", "script", width=script), Column("slurm_job_id", "Slurm job")]


def pod_columns():
    """They need kube-state-metrics."""
    return [Column("namespace", "namespace"), Column("pod", "pod")]


def node_columns():
    return [Column("cluster", "cluster"), Column("instance", "node", link=node_cell())]


def known_column():
    return Column("complete", "memory seen", mappings=KNOWN_MAPPING)


def pid_column():
    """With what the process has allocated and where, of the exporter itself."""
    return Column("pid", "pid", link=model.address(f"{_EXPORTER}allocations?pid=${{__data.fields.pid}}",
                                                   "Allocations of this process, from the exporter of its node"))


def in_flight_link():
    """The calls of a process that have not returned, with threads and stacks, of the exporter itself."""
    return model.address(f"{_EXPORTER}in_flight?pid=${{__data.fields.pid}}",
                         "Calls in flight of this process, from the exporter of its node")


def slow_calls_link():
    """The last slow calls of a function with arguments and stacks, of the exporter itself."""
    return model.address(f"{_EXPORTER}slow_calls?function={_FIELD % 'function'}",
                         "Slow calls of this function, from the exporter of the node")


JOB = model.query_variable(
    "job", "job", f'label_values({PREFIX}build_info{{cluster=~"$cluster"}}, job)',
    "Scrape jobs with a gpusnoop_exporter")
INSTANCE = model.query_variable(
    "instance", "instance", f"label_values({PREFIX}build_info{{{IN_JOB}}}, instance)",
    "Nodes, by scraped address")
CLUSTER = model.query_variable(
    "cluster", "cluster", f"label_values({PREFIX}build_info, cluster)",
    "Clusters, if the targets have this label", everything=".*")
GPUS = model.query_variable(
    "gpu", "GPU", f"label_values({PREFIX}gpu_info{{{CHOSEN}}}, gpu)", "GPUs, by index on the node", everything=".*")


def label_variable(name, label, family, description, *matchers, prefix=PREFIX):
    """Of a label that not every series has: all of them are those without it as well."""
    selector = ", ".join((CHOSEN, *matchers))
    return model.query_variable(name, label, f"label_values({prefix}{family}{{{selector}}}, {name})", description,
                                everything=".*")


def program_variables(family):
    """What promql.PROGRAM asks for."""
    return [label_variable("slurm_job_id", "Slurm job", family, "Slurm jobs (label slurm_job_id)"),
            label_variable("comm", "Program", family, "Process names (label comm)",
                           'slurm_job_id=~"$slurm_job_id"'),
            label_variable("container_id", "Container", family, "Containers (label container_id)",
                           'slurm_job_id=~"$slurm_job_id"', 'comm=~"$comm"')]


# Alerts of a whole cluster have no instance.
FIRING = ('ALERTS{alertstate="firing", alertname=~"Gpusnoop.*", '
          'cluster=~"$cluster", job=~"$job|", instance=~"$instance|"}')

ANNOTATIONS = [
    model.annotation(
        "Alerts", FIRING, "red",
        title="{{alertname}}", text="{{cluster}} {{instance}} {{comm}} {{script}} {{slurm_job_id}}", tags="severity"),
    model.annotation(
        "Exporter started", f"1000 * {process('process_start_time_seconds')}", "blue",
        title="Exporter started", text="{{instance}}", tags="instance", by_value=True),
    model.annotation(
        "Configuration read",
        f"{PREFIX}config_last_reload_success_timestamp_seconds{{{CHOSEN}}} * 1000", "purple",
        title="Configuration read", text="{{instance}}", tags="instance", by_value=True),
]


INCOMPLETE = 'complete="false"'

# For dashboards of memory: what a process held before the probes were attached is not known.
LOWER_BOUND = model.annotation(
    "Memory partly unknown",
    f"1000 * {process('process_start_time_seconds')}\n"
    f"  and on ({BY_NODE}) {own('process_info', INCOMPLETE)}", "orange",
    title="Exporter restarted: the memory of earlier processes is a lower bound", text="{{instance}}",
    tags="instance", by_value=True)


# A graph of a fleet has no line for each node or program of it. Ranks have: the lowest one is the one to look at.
_MOST_LINES = 20
_BY_MANY = re.compile(r"by \([^)]*\b(instance|comm|pid|function)\b")


def _bounded(panel):
    for target in panel["targets"] if panel["type"] == "timeseries" else ():
        expression = target["expr"]
        is_joined = "group_left" in expression  # with what other exporters have of a node
        if _BY_MANY.search(expression) and not re.search(r"topk|\brank\b|ncclSend|[nr]ccl", expression) and not is_joined:
            target["expr"] = lines(_MOST_LINES, expression)
    for target in panel["targets"]:
        target["expr"] = named(target["expr"], target["legendFormat"])


def dashboard(uid, title, description, rows, *, variables=(), annotations=()):
    for row in rows:
        for panel in row.panels:
            _bounded(panel)
    return model.dashboard(
        uid, f"gpusnoop / {title}", description, rows,
        variables=[CLUSTER, JOB, INSTANCE, *variables], annotations=[*ANNOTATIONS, *annotations],
        tags=("cuda", "ebpf", "prometheus"))
