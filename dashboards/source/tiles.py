"""The numbers at the top of dashboards. A number that several dashboards have is the same everywhere, for the same nodes
and programs: it is asked here, and of the exporters' own series, which are newer than recorded ones."""

from .common import ERROR_COLORS, FAILED, FAILING_COLORS, HEALTH, LOST_COLORS
from .model import link_to
from .panels import EACH_MINUTE, EACH_SECOND, stat
from . import promql
from .promql import own, rate, total, up, zero

UNKNOWN_GRAPHS = 'content="unknown"'


def memory_held(expression, **options):
    return stat("GPU memory held", "Allocated and not freed by running processes, without pinned host memory.", "bytes",
                zero(total("", expression)), **options)


def processes(expression, **options):
    return stat("GPU processes", "Running processes that have used CUDA.", "short", zero(total("", expression)), **options)


def launches(per_second, **options):
    """`per_second(family, *matchers)` is a rate of the series that the dashboard is about."""
    kernels = total("", promql.launches(per_second))
    graphs = total("", per_second("cuda_graph_launches_total", UNKNOWN_GRAPHS))
    return stat("Kernel launches", "Kernels launched by calls and by graphs, per second over the last 5 minutes. A graph with "
                "unknown content counts as one.", EACH_SECOND, zero(f"{kernels} + ({zero(graphs)})"), **options)


def copied(per_second, **options):
    return stat("Copied", "Bytes of successful copies, per second over the last 5 minutes.", "binBps",
                zero(total("", per_second("cuda_memcpy_bytes_total"))), **options)


def failing_calls(per_second, **options):
    return stat("Failing CUDA calls", "CUDA calls that return an error, other than \"not ready\" and \"already done\", per "
                "second over the last 5 minutes. Red from the rate at which one function's errors raise an alert.", EACH_SECOND,
                zero(total("", per_second("cuda_api_errors_total", FAILED))), colors=FAILING_COLORS, **options)


def slow_calls(per_second, **options):
    return stat("Slow calls", "Calls that took their function's slow_threshold or longer, per minute over the last 5 "
                "minutes. Some functions are always slow: an alert compares each with its own past.", EACH_MINUTE,
                zero(f"60 * {total('', per_second('function_slow_calls_total'))}"), **options)


def events_lost(**options):
    lost, entered = (total("", rate(f"probe_{name}_total")) for name in ("events_lost", "entries"))
    return stat("Events lost", "Share of the traced calls of the last 5 minutes that could not be counted. Orange from the "
                "share that raises an alert.", "percentunit", zero(f"{lost} / ({entered} > 0)"), colors=LOST_COLORS,
                links=[link_to(HEALTH, "Exporter health")], **options)


def exporters_down(**options):
    return stat("Exporters down", "Exporters that did not answer the last scrape.", "short",
                zero(f"count({up()}) - sum({up()})"), colors=ERROR_COLORS,
                links=[link_to(HEALTH, "Exporter health")], **options)


def probes_failed(**options):
    return stat("Probes failed", "Enabled probes that an error keeps from working. Probes that their node does not support do "
                "not count.", "short", zero(total("", own("probe_state", 'state="failed"'))), colors=ERROR_COLORS,
                links=[link_to(HEALTH, "Exporter health")], **options)
