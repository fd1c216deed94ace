"""Which metrics there are: ours, from docs/metrics.md, and those of others that dashboards join."""

import dataclasses
import pathlib
import re

from . import promql

_ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<type>\w+) \| (?P<labels>[^|]*) \| (?P<meaning>[^|]*)")
# The scrape adds these.
_TARGET = {"cluster", "job", "instance"}

_ALERT = _TARGET | {"alertname", "severity", "comm", "script", "slurm_job_id", "namespace", "pod", "gpu", "pid", "rank",
                    "library", "function", "error", "xid", "sxid", "device", "direction", "role", "cause", "cgroup", "peer",
                    "probe", "reason", "metric", "sink"}
# Of other exporters, and of Prometheus itself, with the labels that dashboards may use.
FOREIGN = {
    "up": _TARGET,
    "scrape_duration_seconds": _TARGET,
    "scrape_samples_scraped": _TARGET,
    "ALERTS": _ALERT | {"alertstate"},
    "ALERTS_FOR_STATE": _ALERT,
    # dcgm-exporter: each GPU by UUID; its label gpu need not be ours.
    "DCGM_FI_DEV_FB_USED": {"UUID"},
    "DCGM_FI_DEV_GPU_UTIL": {"UUID"},
    # kube-state-metrics
    "kube_pod_info": {"uid", "namespace", "pod"},
}
# Of these, the variables job and instance choose nothing: they are joined with what they chose.
JOINED = {name for name in FOREIGN if name.startswith(("DCGM_", "kube_"))}


@dataclasses.dataclass
class Family:
    name: str
    type: str
    labels: set
    is_off: bool = False  # by default


RECORDING = pathlib.Path(__file__).resolve().parents[1] / "rules" / "gpusnoop_recording.yaml"


def recorded(text):
    """The series that the recording rules make, each with the labels that it can have: those by which its rule sums up,
    or of a rule that does not, those of what it reads."""
    found = {}
    for name, expression in re.findall(r"- record: (\S+)\n\s+expr: (\|\n(?:\s{10}.*\n)+|.*\n)", text):
        query = promql.read(expression.removeprefix("|"))
        labels = query.grouped_by or set().union(*(found.get(one.metric, set()) for one in query.selectors))
        if name.startswith("gpu:"):
            labels = labels.union(*(found.get(one.metric, set()) for one in query.selectors))
        # What is by job, namespace or pod is no node's any more.
        found[name] = labels - ({"instance"} if name.startswith(("job:", "namespace:", "pod:")) else set())
    return found


class Catalog:
    """The families of docs/metrics.md, or a list of the same form; and what the rules record of them."""

    made = recorded(RECORDING.read_text(encoding="utf-8"))

    def __init__(self, text):
        self.families = {}
        for line in text.splitlines():
            if match := _ROW.match(line):
                labels = set(re.findall(r"`(\w+)`", match["labels"]))
                is_off = match["meaning"].endswith("Off by default. ")
                self.families[match["name"]] = Family(match["name"], match["type"], labels | _TARGET, is_off)

    def family(self, series):
        """The family that a series' name is of, or None: histograms have three names."""
        family = self.families.get(series)
        if family:
            return None if family.type == "histogram" else family
        for suffix in ("_bucket", "_sum", "_count"):
            family = self.families.get(series.removesuffix(suffix))
            if series.endswith(suffix) and family and family.type == "histogram":
                return family
        return None

    def labels(self, series):
        """Of our series, or of another's; None if there is no such."""
        if series in FOREIGN:
            return FOREIGN[series]
        if series in self.made:
            return self.made[series]
        family = self.family(series)
        if not family:
            return None
        return family.labels | ({"le"} if series.endswith("_bucket") else set())

    def is_counter(self, series):
        family = self.family(series)
        return bool(family) and family.type in ("counter", "histogram")
