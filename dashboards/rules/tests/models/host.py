"""What the host probes count of a program, minute by minute: where the time of its launching thread goes, the gaps
between its launches, its workers, its host memory and its end."""
import dataclasses

from .programs import GIB

# Of a program that is ahead of its GPU, or nearly.
CELLS = {("wait", "running"): 36, ("launch", "running"): 6, ("host", "running"): 15, ("host", "futex"): 2,
         ("host", "runnable"): 1}
GAPS = {("none", "running"): 8, ("stream", "running"): 5, ("stream", "futex"): 1, ("device", "running"): 1}
NUMBER = {"none": 6000, "stream": 600, "device": 60}


@dataclasses.dataclass
class Minute:
    """Of a launching thread: seconds by (phase, state), seconds of gaps by (drain, state), and gaps over a second."""
    cells: dict
    gaps: dict
    long: int = 0


def held_up(state, seconds, number=0):
    """A minute in which a launching thread is so long in a state, after it has waited for its GPU."""
    cells = {**CELLS, ("wait", "running"): 36 - seconds * 0.6, ("host", "running"): 15 - seconds * 0.4}
    before = cells.get(("host", state), 0)
    gaps = {**GAPS, ("stream", state): GAPS.get(("stream", state), 0) + seconds}
    return Minute({**cells, ("host", state): before + seconds}, gaps, number)


def works(program, age):
    return program.launches(age) or program.graphs(age)


def launched(program, age):
    """Whether it has launched anything by now."""
    if program.first_launch is None:
        minutes = (minute for minute in range(2000) if works(program, minute))
        program.first_launch = next(minutes, 10**9)
    return age >= program.first_launch


def watch(exporter, program, age):
    """Counts what its launching thread and its workers did in a minute. A gap counts when it ends."""
    own = program.labels()
    role = {**own, "role": "gpu"}
    for signal, sender in program.signals(age):
        exporter.count("gpusnoop_host_signals_total", {**role, "signal": signal, "sender": sender}, 1)
    exporter.count("gpusnoop_host_page_faults_total", {**role, "kind": "major"}, program.major_faults(age))
    exporter.count("gpusnoop_host_reclaim_stall_seconds_total", {**role, "kind": "direct"}, program.reclaim(age))
    exporter.count("gpusnoop_host_cpu_seconds_total", {**own, "role": "worker"}, program.workers * 60)
    remote = {**role, "peer": "remote"}
    exporter.count("gpusnoop_host_tcp_sent_segments_total", remote, program.segments(age))
    exporter.count("gpusnoop_host_tcp_retransmits_total", remote, program.sent_again(age))
    for error, number in program.connects(age).items():
        if error:
            exporter.count("gpusnoop_host_tcp_connect_failures_total", {**role, "error": error}, number)
        else:
            exporter.count("gpusnoop_host_tcp_connect_duration_seconds_count", role, number)
    if not launched(program, age):
        return
    minute = program.held(age) or Minute(CELLS, GAPS)
    idle, state = exporter.idle.pop(program.pid, (0, ""))
    if works(program, age):
        gaps = dict(minute.gaps)
        if idle:
            gaps["stream", state] = gaps.get(("stream", state), 0) + idle
        for drain, number in NUMBER.items():
            long = (minute.long + (1 if idle else 0)) if drain == "stream" else 0
            exporter.count("gpusnoop_host_launch_gap_seconds_bucket", {**own, "le": "1"}, number)
            exporter.count("gpusnoop_host_launch_gap_seconds_count", own, number + long)
        for (drain, in_state), seconds in gaps.items():
            exporter.count("gpusnoop_host_launch_gap_state_seconds_total", {**own, "drain": drain, "state": in_state}, seconds)
        cells = minute.cells
    elif program.hangs(age):
        cells = {("wait", "poll"): 60}
    else:
        state = program.waits(age)
        exporter.idle[program.pid] = idle + 60, state
        cells = {("host", state): 60}
    for (phase, in_state), seconds in cells.items():
        exporter.count("gpusnoop_host_launch_thread_seconds_total", {**own, "phase": phase, "state": in_state}, seconds)
    running = sum(seconds for (_, in_state), seconds in cells.items() if in_state == "running")
    exporter.count("gpusnoop_host_launch_thread_cpu_seconds_total", {**own, "numa_node": program.numa_node}, running)


def ended(exporter, program):
    exporter.count("gpusnoop_host_process_exits_total", {**program.labels(), "role": "gpu", "cause": program.cause}, 1)
    if program.cause_of_worker:
        labels = {**program.labels(), "role": "worker", "cause": program.cause_of_worker}
        exporter.count("gpusnoop_host_process_exits_total", labels, 1)


def gauges(program, age):
    """(family, labels, value)"""
    own = program.labels()
    yield "gpusnoop_host_launch_threads", own, int(bool(launched(program, age)))
    process = {**own, "pid": program.pid, "role": "gpu"}
    yield "gpusnoop_host_memory_bytes", {**process, "kind": "anon"}, program.host_memory(age)
    if program.swap(age):
        yield "gpusnoop_host_memory_bytes", {**process, "kind": "swap"}, program.swap(age)
    if program.workers:
        worker = {**own, "pid": f"{program.pid}9", "role": "worker"}
        yield "gpusnoop_host_memory_bytes", {**worker, "kind": "anon"}, 2 * GIB
