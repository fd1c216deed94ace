"""How the exporters themselves are."""

from . import tiles
from .common import (ERROR_COLORS, HEALTH, STATE_COLORS, STATE_FAILED, STATE_MAPPING, VALID_MAPPING, WARNING_COLORS,
                     UP_MAPPING, YES_MAPPING, dashboard, node_columns)
from .model import Row
from .panels import EACH_SECOND, Column, stat, table, thresholds, timeseries
from .promql import NODE, NODE_NAME, PROGRAM_NAME, grown, increase, lines, own, process, rate, recorded, top, total, within, zero

BY_PROBE = "instance, probe"
PROBE = f"{{{{probe}}}} {NODE_NAME}"
# Of what is no trouble. Grafana's palette has a red.
CALM = "blue"
ENABLED = 'state!="disabled"'
# Those that failed come first, and then some of the others.
STATES = (f"topk(200, 2 * ({own('probe_state', STATE_FAILED)} == 1) or {own('probe_state', ENABLED)} == 1)")


def _state():
    valid = own("config_last_reload_successful")
    return Row(
        "Now",
        tiles.exporters_down(),
        tiles.probes_failed(),
        stat("Invalid configurations", "Exporters whose last reload failed. They keep their previous configuration.", "short",
             zero(f"count({valid}) - sum({valid})"), colors=ERROR_COLORS),
        tiles.events_lost(),
        stat("Label sets folded", "Label sets over their family's series budget in this range; they were counted as other.",
             "short", zero(total("", grown("series_folded_total"))), colors=WARNING_COLORS),
        stat("Exporter CPU, max", "CPU time of the exporter that uses the most, over the last 5 minutes. 100% is one core.",
             "percentunit", zero(f"max({process('process_cpu_seconds_total', rated=True)})")),
    )


def _probes():
    return Row(
        "Probes",
        table("Probes", "Each enabled probe of each node, failed ones first. unsupported: the kernel or the node lacks what the "
              "probe observes; failed: an error keeps it from working.",
              [*node_columns(),
               Column("probe", "probe"),
               Column("state", "state", mappings=STATE_MAPPING, colors=STATE_COLORS),
               Column("Value #B", "functions", "short"),
               Column("Value #C", "failed to attach", "short", colors=WARNING_COLORS),
               Column("Value #D", "calls in flight", "short")],
              *within(BY_PROBE, STATES,
                      total(BY_PROBE, own("probe_attached_functions")),
                      total(BY_PROBE, grown("probe_attach_failures_total")),
                      total(BY_PROBE, own("probe_in_flight_calls"))),
              width=24, sort="state", descending=False),
        timeseries("Events lost by probe", "Share of the traced calls that could not be counted, of the ten probes with the most.",
                   "percentunit",
                   (lines(10, f"{total(BY_PROBE, rate('probe_events_lost_total'))}\n  / "
                              f"{total(BY_PROBE, rate('probe_entries_total'))}"), PROBE), alarm="orange"),
        timeseries("Events lost by reason", "ring_full: the exporter was too slow, or its buffer too small; throttled: the process "
                   "exceeded max_calls_per_second.", EACH_SECOND,
                   (total("reason", rate("probe_events_lost_total")), "{{reason}}"), alarm="orange"),
        timeseries("Failures to attach", "Libraries that a probe could not attach to, by reason, and files and processes that do not "
                   "answer. The log names them.", "short",
                   (lines(10, total("instance, probe, reason",
                                    increase("probe_attach_failures_total", over="$__rate_interval"))),
                    f"{{{{probe}}}} {{{{reason}}}} {NODE_NAME}"),
                   (lines(10, total("instance", own("discovery_slow_files"))), f"files that do not answer {NODE_NAME}"),
                   (lines(10, total("instance", own("discovery_unreadable_processes"))),
                    f"processes that do not answer {NODE_NAME}"), alarm="orange"),
        timeseries("Crashes in traced calls", "Processes that died of SIGILL, SIGTRAP, SIGSEGV or SIGSYS inside a traced call: by "
                   "their own fault, or because of the probes.", "short",
                   (lines(10, total("instance, probe, signal",
                                    increase("process_deaths_in_traced_calls_total", over="$__rate_interval"))),
                    f"{{{{probe}}}} {{{{signal}}}} {NODE_NAME}"), alarm="red"),
        timeseries("Calls without a matching entry or return", "stale: the call was left by longjmp or its thread ended; unmatched: a "
                   "return without an entry.", EACH_SECOND,
                   (total("probe", rate("probe_stale_calls_total")), "{{probe}} stale"),
                   (total("probe", rate("probe_unmatched_returns_total")), "{{probe}} unmatched"), alarm="orange"),
        timeseries("Details lost", "Slow calls without details or not in the log, lost log lines, events that a sink lost, and "
                   "Xid lines that were not counted.", EACH_SECOND,
                   (total("reason", rate("slow_call_details_lost_total")), "slow calls without details: {{reason}}"),
                   (total("", rate("slow_calls_not_logged_total")), "slow calls not in the log"),
                   (total("", rate("log_lines_lost_total")), "log lines"),
                   (total("sink, reason", rate("sink_events_lost_total")), "{{sink}}: {{reason}}"),
                   (total("reason", rate("xid_lines_ignored_total")), "Xid lines: {{reason}}"), alarm="orange"),
    )


def _cost():
    return Row(
        "What the exporters cost",
        timeseries("Overhead by program", "Time that the probes add to each program, by node, of the ten largest. 100% is one core.",
                   "percentunit",
                   (lines(10, total("instance, comm, probe", rate("overhead_seconds_total"))),
                    f"{PROGRAM_NAME} {{{{probe}}}} {NODE_NAME}"), shade=CALM),
        timeseries("Time in which calls are not observed", "Programs that exceed cuda.max_overhead have their launches, or calls of "
                   "the functions that cost them most, observed only part of the time. 100% is one process, or one place of a "
                   "function in a library, all the time.",
                   "percentunit", (lines(10, total("instance, comm", rate("cuda_launches_unobserved_seconds_total"))),
                                   f"{PROGRAM_NAME} {NODE_NAME}"),
                   (lines(10, total("instance, library, function", rate("function_unobserved_seconds_total"))),
                    f"{{{{function}}}} {NODE_NAME}"), shade=CALM),
        timeseries("CPU of exporters", "CPU time of the ten exporters that use the most. 100% is one core.", "percentunit",
                   (lines(10, process("process_cpu_seconds_total", rated=True)), NODE_NAME), shade=CALM),
        timeseries("Resident memory of exporters", "Of the ten exporters that use the most.", "bytes",
                   (lines(10, process("process_resident_memory_bytes")), NODE_NAME), shade=CALM),
        timeseries("Samples per scrape", "Samples that Prometheus stores from each exporter, of the ten with the most.", "short",
                   (lines(10, process("scrape_samples_scraped")), NODE_NAME), shade=CALM),
        timeseries("Duration of scrapes", "How long each scrape takes, of the ten slowest.", "s",
                   (lines(10, process("scrape_duration_seconds")), NODE_NAME), shade=CALM),
        timeseries("Label sets by family", "Of the ten largest families. A histogram has a series for each bucket of a label set.",
                   "short", (lines(10, total("metric", own("series"))), "{{metric}}"), shade=CALM),
        timeseries("Folded by family", "Label sets that were counted as other. Raise series.budgets of the family, or find what "
                   "makes so many.", "short",
                   (total("metric", increase("series_folded_total", over="$__rate_interval")), "{{metric}}"), alarm="orange"),
        timeseries("Calls by probe", "Traced calls per second, of the ten probes with the most.", EACH_SECOND,
                   (lines(10, total(BY_PROBE, rate("probe_events_total"))), PROBE), shade=CALM),
        timeseries("Cost of a call, by node", "Measured when each exporter started. A call costs an entry, mostly a return, and a "
                   "record unless it is inside another call; a stepped entry is one whose instruction the kernel cannot emulate.",
                   "s", (lines(10, total("instance, mode, part", own("probe_cost_seconds"))),
                         f"{{{{part}}}} {{{{mode}}}} {NODE_NAME}"), shade=CALM),
        timeseries("Time of a BPF program run", "Only measured while kernel.bpf_stats_enabled is 1.", "s",
                   (lines(10, f"{total(BY_PROBE, rate('probe_run_seconds_total'))}\n  / "
                              f"{total(BY_PROBE, rate('probe_runs_total'))}"), PROBE), shade=CALM),
        timeseries("Age of the last discovery round", "Above 10 s, new processes and libraries are found late.", "s",
                   (lines(10, total("instance", own("discovery_last_round_age_seconds"))), NODE_NAME), shade=CALM),
        timeseries("Events to sinks", "Events that sinks accepted.", EACH_SECOND,
                   (lines(10, total("instance, sink", rate("sink_events_total"))), f"{{{{sink}}}} {NODE_NAME}"), shade=CALM),
        timeseries("Open files", "Share of the exporter's limit of open files.", "percentunit",
                   (lines(10, f"({process('process_open_fds')})\n  / on ({NODE}) ({process('process_max_fds')})"),
                    NODE_NAME), shade=CALM),
        collapsed=True,
    )


def _what():
    return Row(
        "What runs where",
        table("Exporters", "Whether each exporter answered the last scrape, those that did not come first; its version, start "
              "time, and last valid configuration.",
              [*node_columns(),
               Column("Value #A", "state", mappings=UP_MAPPING, colors=thresholds("red", 1, "green"), align="left"),
               Column("version", "version"),
               Column("revision", "revision"),
               Column("compiler", "compiler"),
               Column("libbpf", "libbpf"),
               Column("Value #C", "started", "dateTimeAsIso", nothing=""),
               Column("Value #D", "configuration", mappings=VALID_MAPPING, nothing=""),
               Column("Value #E", "configuration read", "dateTimeAsIso", nothing="")],
              *within("instance", f"bottomk(200, {recorded('instance:up:min')})", own("build_info"),
                      total("instance", f"1000 * {process('process_start_time_seconds')}"),
                      total("instance", own("config_last_reload_successful")),
                      total("instance", f"{own('config_last_reload_success_timestamp_seconds')} * 1000")),
              sort=("state", "node"), descending=False, width=24),
        table("Versions", "How many nodes run each version.",
              [Column("version", "version"),
               Column("revision", "revision"),
               Column("libbpf", "libbpf"),
               Column("Value", "nodes", "short")],
              f"count by (version, revision, libbpf) ({own('build_info')})", width=24, height=4),
        table("Kernel features", "Which features each node's kernel has. They decide how probes attach and what that costs.",
              [*node_columns(),
               Column("feature", "feature"),
               Column("Value", "available", mappings=YES_MAPPING)],
              top(200, own("kernel_feature")), sort="node", descending=False, width=24, height=6),
    )


def make():
    return dashboard(
        HEALTH, "Exporter health",
        "Whether the exporters run, see everything, and what they cost.",
        [_state(), _probes(), _cost(), _what()])
