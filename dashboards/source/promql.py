"""Short names for the PromQL that panels are made of.

Every selector of our families has the variables job and instance: they are added here, once.
"""

PREFIX = "gpusnoop_"
CHOSEN = 'job=~"$job", instance=~"$instance"'
# Where a dashboard has the variables comm and container as well.
PROGRAM = 'comm=~"$comm"'


def own(name, *matchers):
    """A family of the exporter, without its prefix: of the chosen nodes."""
    return f"{PREFIX}{name}{{{', '.join((CHOSEN,) + matchers)}}}"


# "All" jobs are those that have our exporter among them, but a selector cannot say so: up and
# process_* are every exporter's. Those that are down had a build_info within the last day.
_OURS = f"max by (job, instance) ({PREFIX}build_info{{{CHOSEN}}})"
_OURS_LATELY = f"max by (job, instance) (present_over_time({PREFIX}build_info{{{CHOSEN}}}[1d]))"


def up():
    """1 or 0 for each of our exporters among the chosen nodes."""
    return f"up{{{CHOSEN}}} * on (job, instance) {_OURS_LATELY}"


def process(name, rated=False):
    """A process_* or scrape_* family of our exporters: of the chosen nodes."""
    series = f"{name}{{{CHOSEN}}}"
    if rated:
        series = f"rate({series}[$__rate_interval])"
    return f"{series} * on (job, instance) {_OURS}"


# By the pod's uid: of one pod there may be several series, of several kube-state-metrics.
PODS = 'max by (pod_uid, namespace, pod) (label_replace(kube_pod_info, "pod_uid", "$1", "uid", "(.+)"))'


def in_pod(expression):
    """The expression, whose result has the labels instance and container_id, with namespace and pod where
    kube-state-metrics tells them."""
    containers = own("process_info", 'container_id!=""', 'pod_uid!=""')
    return (f"{expression}\n  * on (instance, container_id) group_left (namespace, pod)\n"
            f"    max by (instance, container_id, namespace, pod) (\n"
            f"      max by (instance, container_id, pod_uid) ({containers})\n"
            f"      * on (pod_uid) group_left (namespace, pod) {PODS})\n"
            f"  or ignoring (namespace, pod) {expression}")


def rate(name, *matchers):
    return f"rate({own(name, *matchers)}[$__rate_interval])"


def increase(name, *matchers, over="$__range"):
    return f"increase({own(name, *matchers)}[{over}])"


def total(labels, expression):
    """sum by (labels), or the sum of all."""
    return f"sum by ({labels}) ({expression})" if labels else f"sum({expression})"


def highest(labels, expression):
    return f"max by ({labels}) ({expression})"


def top(count, expression):
    return f"topk({count}, {expression})"


def quantile(q, labels, name, *matchers):
    """Of a histogram: what the share q of its observations stays below, by labels."""
    by = f"{labels}, le" if labels else "le"
    return f"histogram_quantile({q}, {total(by, rate(name + '_bucket', *matchers))})"


def buckets(name, *matchers):
    """What a heatmap shows of a histogram."""
    return total("le", f"increase({own(name + '_bucket', *matchers)}[$__rate_interval])")


def mean(labels, name, *matchers):
    return f"{total(labels, rate(name + '_sum', *matchers))}\n  / {total(labels, rate(name + '_count', *matchers))}"
