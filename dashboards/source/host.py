"""What the host does to GPU programs and to what they start."""

from .common import ERROR_COLORS, HOST, dashboard, node_columns, program_columns
from .model import Row
from .panels import EACH_MINUTE, Column, heatmap, table, timeseries
from .promql import PROGRAM_NAME, buckets, grown, increase, lines, rate, top, total

ROLE_NAME = f"{PROGRAM_NAME} {{{{role}}}}"
# An end that somebody or something forced.
FORCED = 'cause=~"SIG.+|oom_kill"'


def _starts_and_ends():
    return Row(
        "Starts and ends",
        timeseries("Starts", "Processes that began to be followed, per minute: GPU processes at their first CUDA call, "
                   "workers at their start, and the next program after each exec. Of the ten programs with the most.",
                   EACH_MINUTE,
                   (lines(10, f"60 * {total('comm, role', rate('host_process_starts_total'))}"), ROLE_NAME), width=8),
        timeseries("Ends by cause", "An exit code, a signal, oom_kill (the kernel had no memory left) or exec (it became "
                   "another program), per minute.", EACH_MINUTE,
                   (lines(10, f"60 * {total('role, cause', rate('host_process_exits_total'))}"), "{{role}} {{cause}}"),
                   width=8),
        timeseries("Signals by sender", "By the process itself, by another process, or by the kernel, per minute. "
                   "SIGCHLD is a child's end.", EACH_MINUTE,
                   (lines(10, f"60 * {total('signal, sender', rate('host_signals_total'))}"), "{{signal}} by {{sender}}"),
                   width=8),
        table("Ends by signal or lack of memory", "In this range. The page /api/v1/exits of a node's exporter says who sent "
              "the signal.",
              [*node_columns(), *program_columns(), Column("role", "role"), Column("cause", "cause"),
               Column("Value", "ends", "short", colors=ERROR_COLORS)],
              top(50, total("instance, comm, role, cause", grown("host_process_exits_total", FORCED)) + " > 0"), width=16,
              nothing="none was killed"),
        heatmap("Lifetimes", "How long processes ran that ended. Many short ones are a crash loop, or work that starts a "
                "program for each item.", "s", buckets("host_process_lifetime_seconds"), width=8),
        table("Signals from other processes", "In this range.",
              [*node_columns(), *program_columns(), Column("role", "role"), Column("signal", "signal"),
               Column("Value", "signals", "short")],
              top(50, total("instance, comm, role, signal", increase("host_signals_total", 'sender="process"')) + " > 0"),
              width=24, height=6),
    )


def make():
    return dashboard(
        HOST, "Host",
        "Is it the host that keeps the GPU waiting? What the host does to GPU programs and to what they start.",
        [_starts_and_ends()])
