"""What takes the time of the threads that launch work: the panels that Host, Node and Workload share."""

from .common import node_columns, program_columns
from .panels import Column, table, thresholds, timeseries
from .promql import PROGRAM_NAME, lines_at_end, total, wide

PROGRAM = "instance, comm"
_BY = wide(PROGRAM)
_SECONDS = "host_launch_thread_seconds_total"
WAITING, NOT_WAITING = 'phase="wait"', 'phase!="wait"'
NO_CPU, HAS_CPU = (f'state{sign}"runnable|throttled|stolen"' for sign in ("=~", "!~"))
THE_GPU = "the GPU"
NEEDS_HOST_TIME = "no thread has launched GPU work, or the probe host_time is off"
# The cause of a phase and a state, a later one before an earlier one. `why` says the same in more words
# (exporter/probes/host_time/gaps/conclusion.cpp).
_CAUSES = (("state", "(.+)", "$1"), ("state", "running", "its own code"), ("state", "pipe|poll|socket", "data"),
           ("state", "futex", "lock or queue"), ("state", "file|io_uring", "storage"), ("state", "page_fault", "page faults"),
           ("phase", "wait", THE_GPU), ("phase", "launch", "launch calls"), ("phase", "copy", "copy calls"),
           ("phase", "memory|other", "other CUDA calls"), ("state", "runnable", "no free CPU"),
           ("state", "throttled", "CPU limit"), ("state", "stolen", "interrupts"))
_CAUSE_MAPPING = [{"type": "value", "options": {THE_GPU: {"text": THE_GPU, "color": "green", "index": 0}}}]


def _by_cause(expression):
    """Seconds by program, phase and state, as seconds by program and cause."""
    for label, values, cause in _CAUSES:
        expression = f'label_replace({expression}, "cause", "{cause}", "{label}", "{values}")'
    return total(f"{PROGRAM}, cause", expression)


def _launching(per_second):
    """The time of the threads that launch, of programs that have some."""
    return f"({total(PROGRAM, per_second(_SECONDS))} > 0)"


def _shares(per_second, seconds):
    """By program and cause, of the time of its launching threads."""
    return (f"{_by_cause(total(f'{PROGRAM}, phase, state', seconds))}\n"
            f"  / on ({_BY}) group_left () {_launching(per_second)}")


def waits_for_gpu(labels, per_second):
    """The share of the time of launching threads, by labels."""
    every = f"({total(labels, per_second(_SECONDS))} > 0)"
    return f"({total(labels, per_second(_SECONDS, WAITING, HAS_CPU))}\n  or 0 * {every})\n  / {every}"


def what_takes_the_time(per_second, **options):
    """`per_second(family, *matchers)` is a rate of the series that the dashboard is about."""
    def share(*matchers):
        every = _launching(per_second)
        return f"({total(PROGRAM, per_second(_SECONDS, *matchers))}\n  or 0 * {every})\n  / {every}"

    gpu = share(WAITING, HAS_CPU)
    others = (share('phase=~"launch|copy|memory|other"', HAS_CPU), share('phase="host"', 'state="running"'),
              share('phase="host"', 'state!="running"', HAS_CPU), share(NO_CPU))
    first = f"topk by ({_BY}) (1, {_shares(per_second, per_second(_SECONDS))})\n  and on ({_BY}) bottomk(50, {gpu})"
    return table(
        "What each program waits for", "Where the threads that launch GPU work spent the last 5 minutes, by program; the "
        "programs that wait least for the GPU come first. Waiting for the GPU is good: the host keeps up. Run "
        "gpusnoop_exporter why on the node for the reasons.",
        [*node_columns(), *program_columns(),
         Column("cause", "most of the time", mappings=_CAUSE_MAPPING, colors=thresholds("orange")),
         Column("Value #A", "share", "percentunit"),
         Column("Value #B", "waits for GPU", "percentunit"),
         Column("Value #C", "CUDA calls", "percentunit"),
         Column("Value #D", "own code", "percentunit"),
         Column("Value #E", "blocked", "percentunit"),
         Column("Value #F", "has no CPU", "percentunit")],
        first, *(f"({one})\n  and on ({_BY}) ({first})" for one in (gpu, *others)),
        **{"width": 24, "sort": "waits for GPU", "descending": False,
           "nothing": "no thread has launched GPU work", **options})


def held_up(per_second, **options):
    seconds = f"{per_second(_SECONDS, NOT_WAITING)} or {per_second(_SECONDS, WAITING, NO_CPU)}"
    not_the_gpu = lines_at_end(15, f"({_shares(per_second, seconds)})")
    return timeseries(
        "Time not spent waiting for the GPU, by program and cause", "Share of the time of each program's launching threads, of "
        "the 15 largest at the end of the range. Data: a pipe or socket, from a data loader or another process. Storage: files. "
        "CPU limit: the cgroup is throttled. No free CPU: other threads have them.", "percentunit",
        (not_the_gpu, f"{PROGRAM_NAME} {{{{cause}}}} {{{{node}}}}"), **options)


def gpu_without_work(per_second, **options):
    gaps = per_second("host_launch_gap_state_seconds_total", 'drain="device"')
    by_cause = _by_cause(total(f"{PROGRAM}, state", gaps))
    return timeseries(
        "GPU without work, by program and cause", "Time between a wait for the device and the next submission, in which the "
        "GPU has no work from the program: share of the time of its launching threads, by what they did. Of the ten largest "
        "at the end of the range; causes as in the other graph.",
        "percentunit",
        (lines_at_end(10, f"({by_cause}\n  / on ({_BY}) group_left () {_launching(per_second)})"),
         f"{PROGRAM_NAME} {{{{cause}}}} {{{{node}}}}"), **options)
