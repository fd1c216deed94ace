"""The two panels that say whether it is the host: on Host, Node and Workload."""

from .panels import timeseries
from .promql import total


def time_of_launching_threads(per_second, **options):
    """`per_second(family, *matchers)` is a rate of the series that the dashboard is about."""
    seconds = per_second("host_launch_thread_seconds_total")
    return timeseries(
        "Time of launching threads", "Of threads that have submitted work to a GPU, by what they are inside of in "
        "CUDA and by what they do or wait for: all together are 1. In the phase wait the host is ahead of the "
        "GPU, which is what one wants; all else is time in which the host may keep the GPU waiting.",
        "percentunit", (f"{total('phase, state', seconds)}\n  / scalar({total('', seconds)})", "{{phase}}: {{state}}"),
        stack=True, **options)


def gpu_without_work(per_second, **options):
    after_waits = per_second("host_launch_gap_state_seconds_total", 'drain="device"')
    return timeseries(
        "GPU without work, by what the host did", "After a wait for the device, the GPU has no work of the program "
        "until the next submission: seconds of it in each second, by what the thread did that launched next, or "
        "waited for.", "short", (total("state", after_waits), "{{state}}"), stack=True, **options)
