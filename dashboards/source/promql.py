"""Short names for the PromQL that panels are made of.

Every selector of our families has the variables cluster, job and instance: they are added here, once. So are labels that
belong together: two clusters may have a node of the same name, and a program that an interpreter runs is told by its script
and by its Slurm job.
"""

import re

PREFIX = "gpusnoop_"
IN_JOB = 'cluster=~"$cluster", job=~"$job"'
CHOSEN = f'{IN_JOB}, instance=~"$instance"'
# Where a dashboard has these variables as well.
PROGRAM = 'comm=~"$comm", slurm_job_id=~"$slurm_job_id", container_id=~"$container_id"'
# How a graph's legend calls a program and a node: named() makes these labels.
PROGRAM_NAME = "{{program}} {{slurm_job_id}}"
NODE_NAME = "{{node}} {{cluster}}"
GPU = 'gpu=~"$gpu"'
# Of the memory that is held, what is the GPU's.
ON_GPU = 'memory_kind!="pinned_host"'

NODE = "cluster, job, instance"
CONTAINER = f"{NODE}, container_id"
_TOGETHER = {"instance": NODE, "comm": "comm, script, slurm_job_id"}


def wide(labels):
    """The labels, each with those that belong to it."""
    return ", ".join(dict.fromkeys(
        ", ".join(_TOGETHER.get(label, label) for label in labels.split(", ")).split(", ")))


def own(name, *matchers):
    """A family of the exporter, without its prefix: of the chosen nodes."""
    return f"{PREFIX}{name}{{{', '.join((CHOSEN,) + matchers)}}}"


def recorded(name, *matchers):
    """A series of the recording rules. Those of a whole job have no instance."""
    level, _, rest = name.partition(":")
    chosen = IN_JOB if level in ("job", "namespace", "pod") else CHOSEN
    return f"{level}:{PREFIX}{rest}{{{', '.join((chosen,) + matchers)}}}"


# "All" jobs are those that have our exporter among them, but a selector cannot say so: up and
# process_* are every exporter's. Those that are down had a build_info within the last day.
_OURS = f"max by ({NODE}) ({PREFIX}build_info{{{CHOSEN}}})"
_OURS_LATELY = f"max by ({NODE}) (present_over_time({PREFIX}build_info{{{CHOSEN}}}[1d]))"


def up():
    """1 or 0 for each of our exporters among the chosen nodes."""
    return f"up{{{CHOSEN}}} * on ({NODE}) {_OURS_LATELY}"


def process(name, rated=False):
    """A process_* or scrape_* family of our exporters: of the chosen nodes."""
    series = f"{name}{{{CHOSEN}}}"
    if rated:
        series = f"rate({series}[$__rate_interval])"
    return f"{series} * on ({NODE}) {_OURS}"


# By the pod's uid: of one pod there may be several series, of several kube-state-metrics.
PODS = 'max by (pod_uid, namespace, pod) (label_replace(kube_pod_info, "pod_uid", "$1", "uid", "(.+)"))'


def in_pod(expression):
    """The expression, whose result has the labels of a container, with namespace and pod where kube-state-metrics
    tells them."""
    containers = own("process_info", 'container_id!=""', 'pod_uid!=""')
    return (f"{expression}\n  * on ({CONTAINER}) group_left (namespace, pod)\n"
            f"    max by ({CONTAINER}, namespace, pod) (\n"
            f"      max by ({CONTAINER}, pod_uid) ({containers})\n"
            f"      * on (pod_uid) group_left (namespace, pod) {PODS})\n"
            f"  or ignoring (namespace, pod) {expression}")


# Short names for legends, of a label: its script's file or the last two parts of its module, or else the program's name;
# a node without its port.
_SHORT = {"program": (("comm", "(.+)", "$1"), ("script", "(?:.+[.])?([^.]+[.][^.]+)|([^.]+)", "$1$2")),
          "node": (("instance", "(.+?)(:[0-9]+)?", "$1"),)}


def named(expression, legend):
    """The expression, with the short names that the legend shows."""
    for made, parts in _SHORT.items():
        for label, values, short in parts if f"{{{{{made}}}}}" in legend else ():
            expression = f'label_replace({expression}, "{made}", "{short}", "{label}", "{values}")'
    return expression


def rate(name, *matchers):
    return f"rate({own(name, *matchers)}[$__rate_interval])"


def launches(per_second, *matchers):
    """A rate of kernel launches, with those that were estimated while they were not counted (cuda.max_overhead).
    `per_second(family, *matchers)` is a rate."""
    return f"({per_second('cuda_kernel_launches_total', *matchers)} or {per_second('cuda_launches_unobserved_total', *matchers)})"


def increase(name, *matchers, over="$__range"):
    return f"increase({own(name, *matchers)}[{over}])"


def grown(name, *matchers):
    """How much a counter has grown in the range, with a series that appeared in it counted from zero if its node was
    scraped before, or its exporter has started in the range. increase() does not see the first value of a series, such
    as a first error. The rules have the same (rules/render.py)."""
    series = own(name, *matchers)
    before = "[1h] offset $__range"
    return (f"({series} unless last_over_time({series}{before})\n"
            f"    and on ({NODE}) (max_over_time(up{{{CHOSEN}}}{before}) == 1\n"
            f"      or time() - process_start_time_seconds{{{CHOSEN}}} < $__range_s)\n"
            f"    or increase({series}[$__range]))")


def happened(labels, name, *matchers):
    """The same as whole numbers, by labels, where there is one: for tables."""
    return f"round({total(labels, grown(name, *matchers))}) > 0"


def total(labels, expression):
    """sum by (labels), or the sum of all."""
    return f"sum by ({wide(labels)}) ({expression})" if labels else f"sum({expression})"


def highest(labels, expression):
    return f"max by ({wide(labels)}) ({expression})"


def count(labels, expression):
    return f"count by ({wide(labels)}) ({expression})" if labels else f"count({expression})"


def zero(expression):
    """The expression, which has one value: nothing to add up is 0, and not "No data"."""
    return f"{expression} or vector(0)"


def top(number, expression):
    """For tables, which show one moment. Elsewhere others would be the first ones at each step: see lines()."""
    return f"topk({number}, {expression})"


_SELECTOR = re.compile(r"([A-Za-z_:][\w:]*\{[^{}]*\})(\[[^\]]*\])?")


def lines(number, expression):
    """For graphs: the same lines over the whole range, which are those that are the highest over all of it."""
    def over_range(match):
        if match[2]:
            return f"{match[1]}[$__range] @ end()"
        if ":info{" in match[1]:
            return f"{match[1]} @ end()"  # which pod it is: over a range, it could be without one and in one
        return f"max_over_time({match[1]}[$__range] @ end())"
    return f"{expression}\n  and topk({number}, {_SELECTOR.sub(over_range, expression)})"


def lines_at_end(number, expression):
    """The same, but those that are the highest at the end: what ended before is not there."""
    return f"{expression}\n  and topk({number}, {_SELECTOR.sub(lambda match: f'{match[0]} @ end()', expression)})"


def within(labels, first, *others):
    """The queries of a table: the first, and of the others what the first has a line for. Grafana would show all lines
    of each of them."""
    return (first, *(f"({other})\n  and on ({wide(labels)}) ({first})" for other in others))


def _at_start(labels, expression):
    return total(labels, _SELECTOR.sub(r"\1\2 offset $__range", expression))


def growth(labels, expression):
    """What it is now less what it was at the start of the range. delta() would extrapolate, and count what has ended."""
    now = total(labels, expression)
    return f"{now}\n  - ({_at_start(labels, expression)} or 0 * {now})"


def growth_of_each(labels, expression):
    """The same, but what began within the range has not grown: a program that loads its model is no leak."""
    now = total(labels, expression)
    return f"({now}\n  - {_at_start(labels, expression)}\n  or 0 * {now})"


def quantile(q, labels, name, *matchers):
    """Of a histogram: what the share q of its observations stays below, by labels."""
    by = f"{labels}, le" if labels else "le"
    return f"histogram_quantile({q}, {total(by, rate(name + '_bucket', *matchers))})"


def buckets(name, *matchers):
    """What a heatmap shows of a histogram."""
    return total("le", f"increase({own(name + '_bucket', *matchers)}[$__rate_interval])")


def mean(labels, name, *matchers):
    return f"{total(labels, rate(name + '_sum', *matchers))}\n  / {total(labels, rate(name + '_count', *matchers))}"
