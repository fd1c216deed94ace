"""Calls of single functions: which hang, which are slow, which fail, and how long they take."""

from . import tiles
from .common import (ERROR_COLORS, FAILING_COLORS, FUNCTIONS, HANGING_COLORS, HANGS, WARNING_COLORS, dashboard, in_flight_link,
                     limit, node_columns, program_columns, program_variables, slow_calls_link)
from .model import Row, query_variable
from .panels import EACH_SECOND, Column, heatmap, stat, table, timeseries
from .promql import (CHOSEN, NODE as BY_NODE, NODE_NAME, PREFIX, PROGRAM, PROGRAM_NAME, buckets, count, grown, happened, highest,
                     increase, lines, own, quantile, rate, recorded, top, total, wide, within, zero)

LIBRARY = 'library=~"$library"'
FUNCTION = 'function=~"$function"'
SELECTED = (PROGRAM, LIBRARY, FUNCTION)
NAME = "{{function}}"
OF_PROGRAM_NAME = f"{PROGRAM_NAME} {{{{function}}}}"
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


def _now():
    oldest = own("oldest_call_seconds", *SELECTED)

    def selected(name, *matchers):
        return rate(name, *matchers, *SELECTED)

    by_call = f"instance, {OF_PROGRAM}, pid"
    return Row(
        "Now",
        stat("Oldest call in flight", "How long the oldest call of the selected functions has not returned. Orange from the age "
             "at which it counts as hanging.", "s", zero(f"max({oldest})"), width=6, colors=HANGING_COLORS),
        stat("Processes with hanging calls", f"Processes with a call that has not returned for {limit('hang_call')}.", "short",
             zero(f"count({count('instance, pid', f'{oldest} > {HANGS}')})"), width=6, colors=WARNING_COLORS),
        tiles.slow_calls(selected, width=6),
        stat("Failing calls", "Calls of traced functions that return an error, per second over the last 5 minutes.", EACH_SECOND,
             zero(total("", selected("function_errors_total"))), width=6, colors=FAILING_COLORS),
        table("Calls in flight", "Calls that have not returned for a second or longer, the oldest first. A pid leads to their "
              "threads and stacks. A call that waits for the GPU lasts as long as the GPU's work.",
              [*node_columns(), *program_columns(), Column("pid", "pid", link=in_flight_link()),
               Column("library", "library"),
               Column("function", "function"),
               Column("Value #A", "oldest", "s", colors=HANGING_COLORS),
               Column("Value #B", "threads", "short")],
              *within(by_call, top(50, highest(by_call, oldest)),
                      total(by_call, own("calls_in_flight", *SELECTED))),
              width=24, height=7, sort="oldest", nothing=NONE_HANGS),
        table("Slow functions", "Functions with the most slow calls in this range. A function leads to its last slow calls, with "
              "arguments and stacks.",
              [*node_columns(), *program_columns(), Column("library", "library"),
               Column("function", "function", link=slow_calls_link()),
               Column("Value", "slow calls")],
              top(30, happened(f"instance, {OF_PROGRAM}", "function_slow_calls_total", *SELECTED)),
              width=24, height=6, nothing="no call is slow"),
    )


def _not_observed():
    """The share of the range, by node and function. Of several copies of a library, it is all of them added up."""
    unobserved = total(f"instance, {BY_FUNCTION}", increase("function_unobserved_seconds_total", LIBRARY, FUNCTION))
    return f"clamp_max({unobserved} / $__range_s, 1)"


def _calls():
    """By function, where the rate of each program is known: the sum of the others would be too low."""
    known, by_each = recorded("program:function_calls:rate5m", *SELECTED), f"instance, {OF_PROGRAM}, container_id"
    unknown = f"{total(by_each, rate('function_calls_total', *SELECTED))} > 0 unless on ({wide(by_each)}) {known}"
    return f"({total(BY_FUNCTION, known)}\n  unless on ({BY_FUNCTION}) ({unknown}))"


def _durations():
    return Row(
        "Durations and calls",
        timeseries("Duration, p99", "99 of 100 calls are shorter; of the ten slowest functions. Functions that wait for the GPU are "
                   "long by nature.", "s",
                   (lines(10, quantile(0.99, BY_FUNCTION, "function_duration_seconds", *SELECTED)), NAME), logarithmic=True,
                   exemplars=True),
        timeseries("Duration, p50", "Half of the calls are shorter; of the ten slowest functions.", "s",
                   (lines(10, quantile(0.5, BY_FUNCTION, "function_duration_seconds", *SELECTED)), NAME),
                   logarithmic=True),
        timeseries("Time inside functions", "Threads inside each function, on average: 1 is one thread that does nothing else. Of "
                   "the ten functions with the most. Only observed calls.", "short",
                   (lines(10, total(BY_FUNCTION, rate("function_duration_seconds_sum", *SELECTED))), NAME)),
        timeseries("Calls by function", "The ten functions that are called most. Calls of functions that cost a program too much "
                   "are observed part of the time: their rate is estimated from half an hour. A function whose rate is unknown for a "
                   "program is missing.", EACH_SECOND, (lines(10, _calls()), NAME)),
        table("Functions by program", "The 100 functions with the most observed calls in this range, with the shortest and the "
              "longest call of the last whole minute. Not observed: the share of the range in which calls of the function were "
              "not counted, because they cost a program more than cuda.max_overhead.",
              [*program_columns(),
               Column("library", "library"),
               Column("function", "function"),
               Column("Value #A", "calls", "short"),
               Column("Value #B", "slow", "short"),
               Column("Value #C", "failed", "short", colors=ERROR_COLORS),
               Column("Value #D", "shortest", "s"),
               Column("Value #E", "longest", "s"),
               Column("Value #F", "not observed", "percentunit")],
              *within(OF_PROGRAM, top(100, total(OF_PROGRAM, increase("function_calls_total", *SELECTED))),
                      total(OF_PROGRAM, grown("function_slow_calls_total", *SELECTED)),
                      total(OF_PROGRAM, grown("function_errors_total", *SELECTED)),
                      f"min by ({wide(OF_PROGRAM)}) ({own('function_duration_min_seconds', *SELECTED)})",
                      highest(OF_PROGRAM, own("function_duration_max_seconds", *SELECTED)),
                      highest(OF_PROGRAM, f"0 * {total(f'instance, {OF_PROGRAM}', increase('function_calls_total', *SELECTED))}\n"
                              f"  + on ({BY_NODE}, {BY_FUNCTION}) group_left () {_not_observed()}")),
              width=24, height=10, sort="calls"),
    )


def _slow():
    return Row(
        "Slow, hanging and failing calls over time",
        timeseries("Slow calls by function", "Calls at or above their function's slow_threshold. Dots are single calls.", "short",
                   (lines(10, total(OF_PROGRAM, increase("function_slow_calls_total", *SELECTED, over="$__rate_interval"))),
                    OF_PROGRAM_NAME), alarm="orange", exemplars=True),
        timeseries("Oldest calls in flight", "Age of the oldest call of each function that has not returned. A line that rises with "
                   "the time is a call that hangs.", "s",
                   (lines(10, highest(OF_PROGRAM, own("oldest_call_seconds", *SELECTED))), OF_PROGRAM_NAME), shade="orange",
                   nothing=NONE_HANGS),
        timeseries("Failing calls by error", "Calls that returned an error, by its name.", EACH_SECOND,
                   (lines(10, total("library, function, error", rate("function_errors_total", *SELECTED))),
                    "{{function}} {{error}}"), alarm="red"),
        timeseries("Share of failing calls", "Calls that returned an error, as a share of the function's calls.", "percentunit",
                   (f"{total(BY_FUNCTION, rate('function_errors_total', *SELECTED))}\n  / "
                    f"{total(BY_FUNCTION, rate('function_calls_total', *SELECTED))}", NAME), alarm="red"),
    )


def _one():
    return Row(
        "One function (select it above)",
        heatmap("Durations", "How long calls take. Select one function: the durations of several add up.", "s",
                buckets("function_duration_seconds", *SELECTED), width=24, exemplars=True),
        collapsed=True,
    )


RANK = f"{PROGRAM_NAME} rank {{{{rank}}}} of {{{{nranks}}}} {{{{communicator}}}}"


def _nccl():
    of = (PROGRAM, 'library=~"lib[nr]ccl.*"')
    by_rank = "instance, comm, container_id, communicator, rank, nranks"
    behind = recorded("rank:nccl_sequence:behind", PROGRAM)
    return Row(
        "NCCL stragglers",
        table("NCCL ranks that are behind", "How many collective operations a rank is behind the first rank of its "
              "communicator, and how long ago its last one was. The other ranks wait for it. In a healthy job, a rank "
              "appears here only for a moment.",
              [*node_columns(), *program_columns(), Column("communicator", "communicator"), Column("rank", "rank"),
               Column("nranks", "of"), Column("Value #A", "behind", "short", colors=WARNING_COLORS),
               Column("Value #B", "last operation", "s")],
              *within(by_rank, top(50, f"{highest(by_rank, behind)} > 0"),
                      f"time() - {highest(by_rank, own('nccl_last_operation_timestamp_seconds', PROGRAM))}"),
              width=24, height=6, sort="behind", nothing="no rank is behind"),
        timeseries("Behind the first rank, by rank", "Collective operations. In a healthy job it stays near 0; the other ranks wait "
                   "for a rank that stays above.", "short", (lines(20, behind), RANK)),
        timeseries("Operations by rank", "Operations per second of each rank, in each communicator.",
                   EACH_SECOND, (lines(64, total("comm, communicator, rank, nranks", rate("nccl_operations_total", PROGRAM))),
                                 RANK)),
        timeseries("Bytes by operation", "Bytes that the operations were asked to communicate.", "binBps",
                   (total("function, datatype", rate("nccl_bytes_total", PROGRAM)), "{{function}} {{datatype}}")),
        timeseries("Time inside NCCL calls by node, p99", "99 of 100 calls are shorter. The node with the shortest calls "
                   "comes last: the others wait for it in their calls.", "s",
                   (quantile(0.99, "instance", "function_duration_seconds", *of), NODE_NAME),
                   logarithmic=True),
        timeseries("Failing NCCL calls by node", "By the error's name.", EACH_SECOND,
                   (total("instance, function, error", rate("function_errors_total", *of)),
                    "{{function}} {{error}} {{node}} {{cluster}}"), alarm="red"),
    )


def make():
    return dashboard(
        FUNCTIONS, "Functions",
        "Calls of functions of the CUDA runtime, cuBLAS, cuDNN, NCCL, libtorch and your own libraries: which hang, which are "
        "slow, which fail, how long they take, and which NCCL rank the others wait for.",
        [_now(), _durations(), _slow(), _nccl(), _one()],
        variables=_variables())
