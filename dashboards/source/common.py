"""What all dashboards share: their names, variables, annotations and links."""

from . import model
from .promql import CHOSEN, PREFIX, own, process

# A dashboard's address never changes: links of other people's lead there.
OVERVIEW = "gpusnoop-overview"
NODE = "gpusnoop-node"
MEMORY = "gpusnoop-cuda-memory"
COPIES = "gpusnoop-cuda-work"
FUNCTIONS = "gpusnoop-functions"
KERNEL = "gpusnoop-kernel"
HEALTH = "gpusnoop-health"

ERROR_COLORS = model.thresholds("green", 1e-9, "red")
WARNING_COLORS = model.thresholds("green", 1e-9, "orange")
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
STATE_COLORS = model.thresholds("text")
STATE_FAILED = 'state="failed"'
YES_MAPPING = [{"type": "value", "options": {
    "0": {"text": "no", "color": "text", "index": 0},
    "1": {"text": "yes", "color": "green", "index": 1},
}}]
VALID_MAPPING = [{"type": "value", "options": {
    "0": {"text": "invalid", "color": "red", "index": 0},
    "1": {"text": "valid", "color": "green", "index": 1},
}}]

_FIELD = "${__data.fields.%s}"


def node_cell(title="node"):
    """The link of a table's column of nodes."""
    return model.link_to(NODE, "This node", instance=_FIELD % title)


def program_cell(uid, title, node="node", program="program"):
    return model.link_to(uid, title, instance=_FIELD % node, comm=_FIELD % program)


JOB = model.query_variable(
    "job", "job", f"label_values({PREFIX}build_info, job)",
    "The scrape jobs that have a gpusnoop_exporter")
INSTANCE = model.query_variable(
    "instance", "instance", f'label_values({PREFIX}build_info{{job=~"$job"}}, instance)',
    "Nodes, by the address that is scraped")


def program_variable(family):
    return model.query_variable(
        "comm", "Program", f"label_values({PREFIX}{family}{{{CHOSEN}}}, comm)",
        "Names of processes (label comm)", everything=".*")


ANNOTATIONS = [
    model.annotation(
        "Alerts",
        # Alerts of a whole cluster have no instance.
        'ALERTS{alertstate="firing", alertname=~"Gpusnoop.*", job=~"$job|", instance=~"$instance|"}',
        "red",
        title="{{alertname}}", text="{{instance}} {{comm}}", tags="severity"),
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
    "Memory known in part",
    f"1000 * {process('process_start_time_seconds')}\n"
    f"  and on (job, instance) {own('process_info', INCOMPLETE)}", "orange",
    title="Restart: memory of processes that ran before is a lower bound", text="{{instance}}",
    tags="instance", by_value=True)


def dashboard(uid, title, description, rows, *, variables=(), annotations=()):
    return model.dashboard(
        uid, f"gpusnoop / {title}", description, rows,
        variables=[JOB, INSTANCE, *variables], annotations=[*ANNOTATIONS, *annotations],
        tags=("cuda", "ebpf", "prometheus"))
