"""Calls of single functions: how long, how many slow, which errors."""

from .common import (ERROR_COLORS, FAILING_COLORS, FUNCTIONS, WARNING_COLORS, dashboard, in_flight_link, node_columns,
                     program_columns, program_variables, slow_calls_link)
from .model import Row, query_variable
from .panels import EACH_MINUTE, EACH_SECOND, Column, bars, heatmap, stat, table, timeseries
from .promql import (CHOSEN, PREFIX, PROGRAM, buckets, grown, highest, increase, lines, mean, own, quantile, rate, recorded, top,
                     total, wide, within, zero)

LIBRARY = 'library=~"$library"'
FUNCTION = 'function=~"$function"'
SELECTED = (PROGRAM, LIBRARY, FUNCTION)
NAME = "{{library}} {{function}}"
BY_FUNCTION = "library, function"
OF_PROGRAM = "comm, library, function"
NONE_HANGS = "no call has lasted for a second"


def _variables():
    calls = f"{PREFIX}function_calls_total{{{CHOSEN}, {PROGRAM}"
    return [
        *program_variables("function_calls_total"),
        query_variable("library", "Library", f"label_values({calls}}}, library)",
                       "File names of libraries and programs with traced functions", everything=".*"),
        query_variable("function", "Function", f"label_values({calls}, {LIBRARY}}}, function)",
                       "Traced functions", everything=".*"),
    ]


def _selected():
    return Row(
        "Functions that are selected above",
        stat("Calls", "Calls that ended; of functions that are followed at their entry only, calls that "
             "began.", EACH_SECOND, zero(total("", rate("function_calls_total", *SELECTED))), width=6),
        stat("Mean duration", "Time inside a call, on average.", "s",
             mean("", "function_duration_seconds", *SELECTED), width=6, nothing="no calls"),
        stat("Slow calls", "Calls that took as long as their function's slow_threshold, or longer.",
             EACH_MINUTE, zero(f"60 * {total('', rate('function_slow_calls_total', *SELECTED))}"), width=6,
             colors=WARNING_COLORS),
        stat("Failing calls", "Calls that returned an error.", EACH_SECOND,
             zero(total("", rate("function_errors_total", *SELECTED))), width=6, colors=FAILING_COLORS),
        timeseries("Duration, p99", "What 99 of 100 calls stay below, of the ten slowest.",
                   "s", (lines(10, quantile(0.99, BY_FUNCTION, "function_duration_seconds", *SELECTED)),
                         NAME), logarithmic=True, exemplars=True),
        timeseries("Duration, p50", "What half of the calls stay below, of the ten "
                   "slowest.", "s",
                   (lines(10, quantile(0.5, BY_FUNCTION, "function_duration_seconds", *SELECTED)), NAME),
                   logarithmic=True),
        timeseries("Calls by function", "The ten that are called the most.", EACH_SECOND,
                   (lines(10, total(BY_FUNCTION, rate("function_calls_total", *SELECTED))), NAME)),
        timeseries("Threads inside", "Time inside calls per second: how many threads are inside, on "
                   "average.", "short",
                   (lines(10, total(BY_FUNCTION, rate("function_duration_seconds_sum", *SELECTED))),
                    NAME)),
        table("Functions", "All that were called in this range; the shortest and the longest call of the last whole minute.",
              [*program_columns(),
               Column("library", "library"),
               Column("function", "function"),
               Column("Value #A", "calls", "short"),
               Column("Value #B", "slow", "short", colors=WARNING_COLORS),
               Column("Value #C", "failed", "short", colors=ERROR_COLORS),
               Column("Value #D", "shortest", "s"),
               Column("Value #E", "longest", "s")],
              *within(OF_PROGRAM, top(100, total(OF_PROGRAM, increase("function_calls_total", *SELECTED))),
                      total(OF_PROGRAM, grown("function_slow_calls_total", *SELECTED)),
                      total(OF_PROGRAM, grown("function_errors_total", *SELECTED)),
                      f"min by ({wide(OF_PROGRAM)}) ({own('function_duration_min_seconds', *SELECTED)})",
                      highest(OF_PROGRAM, own("function_duration_max_seconds", *SELECTED))),
              width=24, height=10, sort="calls"),
        heatmap("Durations", "How long calls take. Select one function to see it alone: with "
                "functions of different buckets, bars of one add to those of others.", "s",
                buckets("function_duration_seconds", *SELECTED), width=24, exemplars=True),
    )


def _slow():
    return Row(
        "Slow and failing calls",
        table("Slow calls by node", "The functions with the most slow calls in this range; each leads to its last slow calls, "
              "with arguments and stack, at the exporter of its node.",
              [*node_columns(), *program_columns(), Column("library", "library"),
               Column("function", "function", link=slow_calls_link()),
               Column("Value", "slow calls", colors=WARNING_COLORS)],
              top(30, total(f"instance, {OF_PROGRAM}", grown("function_slow_calls_total", *SELECTED)) + " > 0"),
              width=24, height=7),
        timeseries("Slow calls by function", "Calls that took as long as their function's "
                   "slow_threshold or longer. Each one is at /api/v1/slow_calls of its node, in its log, "
                   "and in the sinks.", "short",
                   (lines(10, total("comm, library, function",
                                  increase("function_slow_calls_total", *SELECTED,
                                           over="$__rate_interval"))),
                    "{{comm}} {{script}} {{slurm_job_id}} {{library}} {{function}}"), shade="orange", exemplars=True),
        timeseries("Longest calls", "The longest call that ended in the last whole minute.", "s",
                   (lines(10, highest("comm, library, function",
                                    own("function_duration_max_seconds", *SELECTED))),
                    "{{comm}} {{script}} {{slurm_job_id}} {{library}} {{function}}"), logarithmic=True),
        timeseries("Failing calls by error", "Calls that returned an error, by its name.", EACH_SECOND,
                   (lines(10, total("library, function, error",
                                  rate("function_errors_total", *SELECTED))),
                    "{{library}} {{function}} {{error}}"), shade="red"),
        timeseries("Share of failing calls", "Of the calls of a function: those that returned an "
                   "error.", "percentunit",
                   (f"{total(BY_FUNCTION, rate('function_errors_total', *SELECTED))}\n  / "
                    f"{total(BY_FUNCTION, rate('function_calls_total', *SELECTED))}", NAME), shade="red"),
    )


def _in_flight():
    by_call = f"instance, {OF_PROGRAM}, pid"
    return Row(
        "Calls that hang",
        table("Calls in flight", "Calls that have not returned for a second or longer, the oldest first; a pid leads to their "
              "threads and stacks at the exporter of the node. A call that waits for the GPU is as long as the work.",
              [*node_columns(), *program_columns(), Column("pid", "pid", link=in_flight_link()),
               Column("library", "library"),
               Column("function", "function"),
               Column("Value #A", "for", "s"),
               Column("Value #B", "calls", "short")],
              *within(by_call, top(50, highest(by_call, own("oldest_call_seconds", PROGRAM))),
                      total(by_call, own("calls_in_flight", PROGRAM))),
              width=24, height=7, sort="for", nothing=NONE_HANGS),
        timeseries("Oldest calls", "How long the oldest call of each function has not returned. A line that rises for as long "
                   "as the range is wide is a call that hangs.", "s",
                   (lines(10, highest("comm, library, function", own("oldest_call_seconds", PROGRAM))),
                    "{{comm}} {{script}} {{slurm_job_id}} {{library}} {{function}}"), shade="orange", nothing=NONE_HANGS),
        timeseries("Threads in such calls", "Calls that have not returned for a second or longer.", "short",
                   (lines(10, total("comm, library, function", own("calls_in_flight", PROGRAM))),
                    "{{comm}} {{script}} {{slurm_job_id}} {{library}} {{function}}"), nothing=NONE_HANGS),
    )


def _library(title, files, what):
    """The same view of one of NVIDIA's libraries."""
    of = (PROGRAM, f'library=~"{files}"')
    name = title.split(",")[0]
    return Row(
        title,
        timeseries(f"{name}: calls", f"Calls per second {what}.", EACH_SECOND,
                   (lines(10, total("function", rate("function_calls_total", *of))), "{{function}}"),
                   width=8),
        timeseries(f"{name}: duration", "What 99 of 100 calls stay below, of the ten slowest. They "
                   "submit work and return: a long one loads kernels, or waits for a full queue.", "s",
                   (lines(10, quantile(0.99, "function", "function_duration_seconds", *of)),
                    "{{function}}"), width=8, logarithmic=True),
        heatmap(f"{name}: all durations", "How long calls take.", "s",
                buckets("function_duration_seconds", *of), width=8),
        timeseries(f"{name}: failing calls", "By the error's name.", EACH_SECOND,
                   (total("function, error", rate("function_errors_total", *of)),
                    "{{function}} {{error}}"), shade="red"),
        timeseries(f"{name}: slow calls", "Calls that took as long as the function's slow_threshold, or "
                   "longer.", "short",
                   (total("comm, function", increase("function_slow_calls_total", *of,
                                                     over="$__rate_interval")),
                    "{{comm}} {{script}} {{slurm_job_id}} {{function}}"), shade="orange", exemplars=True),
        collapsed=True,
    )


RANK = "{{comm}} {{script}} {{slurm_job_id}} rank {{rank}} of {{nranks}} in {{communicator}}"


def _nccl():
    of = (PROGRAM, 'library=~"lib[nr]ccl.*"')
    by_rank = "instance, comm, container_id, communicator, rank, nranks"
    behind = recorded("rank:nccl_sequence:behind", PROGRAM)
    return Row(
        "NCCL and its stragglers",
        table("NCCL: ranks that are behind", "By how many collective operations a rank is behind the first one of its "
              "communicator, over all nodes, and since when it has made none. The others wait for it. A job that is in step has "
              "ranks here for a moment.",
              [*node_columns(), *program_columns(), Column("communicator", "communicator"), Column("rank", "rank"),
               Column("nranks", "of"), Column("Value #A", "behind", "short", colors=WARNING_COLORS),
               Column("Value #B", "stands for", "s")],
              *within(by_rank, top(50, f"{highest(by_rank, behind)} > 0"),
                      f"time() - {highest(by_rank, own('nccl_last_operation_timestamp_seconds', PROGRAM))}"),
              width=24, height=7, sort="stands for", nothing="no rank is behind"),
        timeseries("NCCL: behind the first rank", "Collective operations. In step, it is 0, or moves around it; a line that "
                   "stays above it is of the rank that the others wait for.", "short", (lines(20, behind), RANK)),
        timeseries("NCCL: operations by rank", "Operations per second of each rank, in each communicator.",
                   EACH_SECOND, (lines(64, total("comm, communicator, rank, nranks", rate("nccl_operations_total", PROGRAM))),
                                 RANK)),
        timeseries("NCCL: place of each rank", "Collective operations that it has made in its communicator.", "short",
                   (lines(64, highest("comm, communicator, rank, nranks", own("nccl_sequence", PROGRAM))), RANK)),
        timeseries("NCCL: bytes by operation", "What the operations were asked to communicate.", "binBps",
                   (total("function, datatype", rate("nccl_bytes_total", PROGRAM)),
                    "{{function}} {{datatype}}")),
        timeseries("NCCL: bytes by node", "What each node's ranks were asked to communicate.", "binBps",
                   (total("instance", rate("nccl_bytes_total", PROGRAM)), "{{cluster}} {{instance}}"), width=8),
        timeseries("NCCL: time inside calls, by node", "What 99 of 100 calls stay below. A node whose calls "
                   "are shorter than the others' comes last: the others wait for it in theirs.", "s",
                   (quantile(0.99, "instance", "function_duration_seconds", *of), "{{cluster}} {{instance}}"),
                   width=8, logarithmic=True),
        timeseries("NCCL: failing calls", "By the error's name.", EACH_SECOND,
                   (total("instance, function, error", rate("function_errors_total", *of)),
                    "{{cluster}} {{instance}} {{function}} {{error}}"), width=8, shade="red"),
        collapsed=True,
    )


def make():
    return dashboard(
        FUNCTIONS, "Functions",
        "Calls of functions of cuBLAS, cuDNN, NCCL, libtorch, the CUDA runtime and your own libraries: "
        "calls that hang, durations, slow calls and errors.",
        [_selected(), _in_flight(), _slow(),
         _library("cuBLAS", "libcublas.*", "of cuBLAS and cuBLASLt"),
         _library("cuDNN", "libcudnn.*", "of cuDNN"),
         _nccl()],
        variables=_variables())
