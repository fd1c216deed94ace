"""How the exporters themselves are."""

from .common import (ERROR_COLORS, HEALTH, STATE_COLORS, STATE_FAILED, STATE_MAPPING, VALID_MAPPING,
                     WARNING_COLORS, YES_MAPPING, dashboard, node_cell)
from .model import Column, Row, stat, table, timeseries
from .promql import increase, own, process, rate, top, total, up

BY_PROBE = "instance, probe"
PROBE = "{{instance}} {{probe}}"


def _state():
    return Row(
        "Now",
        stat("Exporters down", "Exporters that did not answer the last scrape.", "short",
             f"count({up()}) - sum({up()})", colors=ERROR_COLORS),
        stat("Probes failed", "Enabled probes that an error keeps from working. Probes that their node does not "
             "support do not count.", "short",
             total("", own("probe_state", STATE_FAILED)), colors=ERROR_COLORS),
        stat("Invalid configurations", "Exporters whose last reload failed: they go on with the "
             "configuration from before.", "short",
             f"count({own('config_last_reload_successful')}) - "
             f"sum({own('config_last_reload_successful')})", colors=ERROR_COLORS),
        stat("Events lost", "Calls that were entered and could not be counted.", "ops",
             total("", rate("probe_events_lost_total")), colors=WARNING_COLORS),
        stat("Label sets folded", "Label sets that did not fit their family's budget, and were counted as "
             "other, in this range.", "short", total("", increase("series_folded_total")),
             colors=WARNING_COLORS),
        stat("Series", "Label sets of all families. A histogram has a series for each bucket of one.",
             "short", total("", own("series"))),
    )


def _probes():
    return Row(
        "Probes",
        table("Probes", "Each probe of each node: its state, and what it is attached to. unsupported: the "
              "kernel or the node lacks the thing that it looks at; failed: by an error.",
              [Column("instance", "node", link=node_cell()),
               Column("probe", "probe"),
               Column("state", "state", mappings=STATE_MAPPING, colors=STATE_COLORS),
               Column("Value #B", "functions", "short"),
               Column("Value #C", "failures to attach", "short", colors=WARNING_COLORS),
               Column("Value #D", "calls in flight", "short")],
              f"{own('probe_state')} == 1",
              total(BY_PROBE, own("probe_attached_functions")),
              total(BY_PROBE, increase("probe_attach_failures_total")),
              total(BY_PROBE, own("probe_in_flight_calls")),
              width=24, sort="node", descending=False),
        timeseries("Events", "Calls that returned and sent their event.", "ops",
                   (total(BY_PROBE, rate("probe_events_total")), PROBE), width=8),
        timeseries("Events lost by reason", "Calls that were entered and have no event. ring_full: the "
                   "exporter was too slow, or its buffer too small; throttled: the process was over "
                   "max_calls_per_second.", "ops",
                   (total("instance, probe, reason", rate("probe_events_lost_total")),
                    PROBE + " {{reason}}"), width=8),
        timeseries("Share that is lost", "Of the calls that were entered.", "percentunit",
                   (f"{total(BY_PROBE, rate('probe_events_lost_total'))}\n  / "
                    f"{total(BY_PROBE, rate('probe_entries_total'))}", PROBE), width=8),
        timeseries("Calls that do not end as they began", "stale: left by longjmp or with their thread; "
                   "unmatched: a return without an entry; nested: inside a traced call, part of it.", "ops",
                   (total("probe", rate("probe_stale_calls_total")), "{{probe}} stale"),
                   (total("probe", rate("probe_unmatched_returns_total")), "{{probe}} unmatched"),
                   (total("probe", rate("probe_nested_calls_total")), "{{probe}} nested"), width=8),
        timeseries("Programs that died in a traced call", "Of SIGILL, SIGTRAP, SIGSEGV or SIGSYS, in a thread "
                   "that was in a traced call: a fault of their own, or harm that the probes did.", "short",
                   (total("instance, probe, signal",
                          increase("process_deaths_in_traced_calls_total", over="$__rate_interval")),
                    PROBE + " {{signal}}"), width=8),
        timeseries("Cost of a run", "Time inside the probe's programs, for each run. The kernel measures "
                   "it only while kernel.bpf_stats_enabled is 1.", "s",
                   (f"{total(BY_PROBE, rate('probe_run_seconds_total'))}\n  / "
                    f"{total(BY_PROBE, rate('probe_runs_total'))}", PROBE), width=8),
        timeseries("Failures to attach", "Libraries that a probe could not attach to, by reason; the log says "
                   "which.", "short",
                   (total("instance, probe, reason",
                          increase("probe_attach_failures_total", over="$__rate_interval")),
                    PROBE + " {{reason}}"),
                   (total("instance", own("discovery_slow_files")), "{{instance}} files that do not answer"),
                   width=8),
        timeseries("Age of the last round of discovery", "Time since discovery completed its last round: past 10 s, "
                   "new ones are not found.", "s",
                   (top(10, total("instance", own("discovery_last_round_age_seconds"))), "{{instance}}"),
                   width=8),
    )


def _series():
    return Row(
        "Series",
        timeseries("Series by family", "Label sets of each family, of the ten largest.", "short",
                   (top(10, total("metric", own("series"))), "{{metric}}"), width=8),
        timeseries("Folded by family", "Label sets that were counted as other: raise series.budgets of that "
                   "family, or look for what makes so many.", "short",
                   (total("metric", increase("series_folded_total", over="$__rate_interval")),
                    "{{metric}}"), width=8),
        timeseries("Samples of a scrape", "What Prometheus takes from each exporter.", "short",
                   (process("scrape_samples_scraped"), "{{instance}}"), width=8),
        timeseries("Duration of a scrape", "How long Prometheus waits for the page.", "s",
                   (process("scrape_duration_seconds"), "{{instance}}"), width=8),
        timeseries("Slow calls without details", "Slow calls that are counted, but of which not all is "
                   "known, and those that the log has left out.", "ops",
                   (total("reason", rate("slow_call_details_lost_total")), "without details: {{reason}}"),
                   (total("", rate("slow_calls_not_logged_total")), "not in the log"), width=8),
        timeseries("Sinks and log", "Events that sinks have taken, events that they never got, and lines "
                   "that found no room in the log.", "ops",
                   (total("instance, sink", rate("sink_events_total")), "{{instance}} {{sink}}"),
                   (total("instance, sink, reason", rate("sink_events_lost_total")),
                    "{{instance}} {{sink}} lost: {{reason}}"),
                   (total("instance", rate("log_lines_lost_total")), "{{instance}} log, lines lost"), width=8),
    )


def _process():
    return Row(
        "The exporter's process",
        timeseries("CPU", "CPU time: 100% is one core.", "percentunit",
                   (process("process_cpu_seconds_total", rated=True), "{{instance}}"), width=6),
        timeseries("Resident memory", "Memory that the exporter has.", "bytes",
                   (process("process_resident_memory_bytes"), "{{instance}}"), width=6),
        timeseries("Virtual memory", "Address space, and the most that it may take if that is limited.",
                   "bytes", (process("process_virtual_memory_bytes"), "{{instance}}"), width=6),
        timeseries("Open files", "Share of the open files that are allowed.", "percentunit",
                   (f"({process('process_open_fds')})\n  / on (job, instance) ({process('process_max_fds')})",
                    "{{instance}}"), width=3),
        timeseries("Threads", "Threads of the exporter.", "short",
                   (process("process_threads"), "{{instance}}"), width=3),
    )


def _what():
    return Row(
        "What runs where",
        table("Exporters", "Version, when it started, and when it last read a valid configuration.",
              [Column("instance", "node", link=node_cell()),
               Column("version", "version"),
               Column("revision", "revision"),
               Column("compiler", "compiler"),
               Column("libbpf", "libbpf"),
               Column("Value #B", "started", "dateTimeAsIso"),
               Column("Value #C", "configuration", mappings=VALID_MAPPING),
               Column("Value #D", "configuration read", "dateTimeAsIso")],
              own("build_info"),
              total("instance", f"1000 * {process('process_start_time_seconds')}"),
              total("instance", own("config_last_reload_successful")),
              total("instance", f"{own('config_last_reload_success_timestamp_seconds')} * 1000"),
              sort="node", descending=False),
        table("Kernel features", "What each node's kernel offers, found by trying it: it decides how probes "
              "attach, and what that costs.",
              [Column("instance", "node", link=node_cell()),
               Column("feature", "feature"),
               Column("Value", "there", mappings=YES_MAPPING)],
              own("kernel_feature"), sort="node", descending=False),
    )


def make():
    return dashboard(
        HEALTH, "Exporter health",
        "Whether the exporters run, see everything, and what they cost.",
        [_state(), _probes(), _series(), _process(), _what()])
