"""How the exporters themselves are."""

from .common import (ERROR_COLORS, HEALTH, STATE_COLORS, STATE_FAILED, STATE_MAPPING, VALID_MAPPING, WARNING_COLORS,
                     YES_MAPPING, dashboard, node_columns)
from .model import Row
from .panels import EACH_SECOND, Column, stat, table, timeseries
from .promql import NODE, grown, increase, lines, own, process, rate, top, total, up, within, zero

BY_PROBE = "instance, probe"
PROBE = "{{cluster}} {{instance}} {{probe}}"
ENABLED = 'state!="disabled"'
# Those that failed come first, and then some of the others.
STATES = (f"topk(200, 2 * ({own('probe_state', STATE_FAILED)} == 1) or {own('probe_state', ENABLED)} == 1)")


def _state():
    return Row(
        "Now",
        stat("Exporters down", "Exporters that did not answer the last scrape.", "short",
             zero(f"count({up()}) - sum({up()})"), colors=ERROR_COLORS),
        stat("Probes failed", "Enabled probes that an error keeps from working. Probes that their node does not "
             "support do not count.", "short",
             zero(total("", own("probe_state", STATE_FAILED))), colors=ERROR_COLORS),
        stat("Invalid configurations", "Exporters whose last reload failed: they go on with the "
             "configuration from before.", "short",
             zero(f"count({own('config_last_reload_successful')}) - "
                  f"sum({own('config_last_reload_successful')})"), colors=ERROR_COLORS),
        stat("Events lost", "Calls that were entered and could not be counted.", EACH_SECOND,
             zero(total("", rate("probe_events_lost_total"))), colors=WARNING_COLORS),
        stat("Label sets folded", "Label sets that did not fit their family's budget, and were counted as "
             "other, in this range.", "short", zero(total("", grown("series_folded_total"))),
             colors=WARNING_COLORS),
        stat("Series", "Label sets of all families. A histogram has a series for each bucket of one.",
             "short", zero(total("", own("series")))),
    )


def _probes():
    return Row(
        "Probes",
        table("Probes", "Each enabled probe of each node, those that failed first: its state, and what it is attached to. "
              "unsupported: the kernel or the node lacks the thing that it looks at; failed: by an error.",
              [*node_columns(),
               Column("probe", "probe"),
               Column("state", "state", mappings=STATE_MAPPING, colors=STATE_COLORS),
               Column("Value #B", "functions", "short"),
               Column("Value #C", "failures to attach", "short", colors=WARNING_COLORS),
               Column("Value #D", "calls in flight", "short")],
              *within(BY_PROBE, STATES,
                      total(BY_PROBE, own("probe_attached_functions")),
                      total(BY_PROBE, grown("probe_attach_failures_total")),
                      total(BY_PROBE, own("probe_in_flight_calls"))),
              width=24, sort="state", descending=False),
        timeseries("Events", "Calls that returned and sent their event.", EACH_SECOND,
                   (lines(10, total(BY_PROBE, rate("probe_events_total"))), PROBE)),
        timeseries("Events lost by reason", "Calls that were entered and have no event. ring_full: the "
                   "exporter was too slow, or its buffer too small; throttled: the process was over "
                   "max_calls_per_second.", EACH_SECOND,
                   (total("reason", rate("probe_events_lost_total")), "{{reason}}"),
                   shade="orange"),
        timeseries("Share that is lost", "Of the calls that were entered.", "percentunit",
                   (lines(10, f"{total(BY_PROBE, rate('probe_events_lost_total'))}\n  / "
                              f"{total(BY_PROBE, rate('probe_entries_total'))}"), PROBE), shade="orange"),
        timeseries("Calls that do not end as they began", "stale: left by longjmp or with their thread; "
                   "unmatched: a return without an entry; nested: inside a traced call, part of it.", EACH_SECOND,
                   (total("probe", rate("probe_stale_calls_total")), "{{probe}} stale"),
                   (total("probe", rate("probe_unmatched_returns_total")), "{{probe}} unmatched"),
                   (total("probe", rate("probe_nested_calls_total")), "{{probe}} nested")),
        timeseries("Programs that died in a traced call", "Of SIGILL, SIGTRAP, SIGSEGV or SIGSYS, in a thread "
                   "that was in a traced call: a fault of their own, or harm that the probes did.", "short",
                   (lines(10, total("instance, probe, signal",
                                    increase("process_deaths_in_traced_calls_total", over="$__rate_interval"))),
                    PROBE + " {{signal}}"), shade="red"),
        timeseries("Cost of a run", "Time inside the probe's programs, for each run. The kernel measures "
                   "it only while kernel.bpf_stats_enabled is 1.", "s",
                   (lines(10, f"{total(BY_PROBE, rate('probe_run_seconds_total'))}\n  / "
                              f"{total(BY_PROBE, rate('probe_runs_total'))}"), PROBE)),
        timeseries("What the exporter costs each process", "Its calls times what a probe costs on its node, of the ten "
                   "programs that pay the most on each node: 100% is one core.", "percentunit",
                   (lines(10, total("instance, comm, probe", rate("overhead_seconds_total"))),
                    "{{cluster}} {{instance}} {{comm}} {{probe}}")),
        timeseries("Time in which launches are not counted", "cuda.max_overhead is set, and the probes cost the program "
                   "more: its launches are counted in turns of a second. 100% is one process all the time.",
                   "percentunit", (lines(10, total("instance, comm", rate("cuda_launches_unobserved_seconds_total"))),
                                   "{{cluster}} {{instance}} {{comm}}"), shade="orange"),
        timeseries("What a probe costs", "Measured on each node when its exporter started. A call has an entry and mostly a "
                   "return, and a record if it is not inside another one; an entry is stepped where the kernel cannot "
                   "emulate its instruction.", "s",
                   (lines(10, total("instance, mode, part", own("probe_cost_seconds"))),
                    "{{cluster}} {{instance}} {{mode}} {{part}}")),
        timeseries("Failures to attach", "Libraries that a probe could not attach to, by reason; the log says "
                   "which.", "short",
                   (lines(10, total("instance, probe, reason",
                                    increase("probe_attach_failures_total", over="$__rate_interval"))),
                    PROBE + " {{reason}}"),
                   (lines(10, total("instance", own("discovery_slow_files"))),
                    "{{cluster}} {{instance}} files that do not answer"),
                   (lines(10, total("instance", own("discovery_unreadable_processes"))),
                    "{{cluster}} {{instance}} processes that do not answer")),
        timeseries("Age of the last round of discovery", "Time since discovery completed its last round: past 10 s, "
                   "new ones are not found.", "s",
                   (lines(10, total("instance", own("discovery_last_round_age_seconds"))), "{{cluster}} {{instance}}")),
    )


def _series():
    return Row(
        "Series",
        timeseries("Series by family", "Label sets of each family, of the ten largest.", "short",
                   (lines(10, total("metric", own("series"))), "{{metric}}"), width=8),
        timeseries("Folded by family", "Label sets that were counted as other: raise series.budgets of that "
                   "family, or look for what makes so many.", "short",
                   (total("metric", increase("series_folded_total", over="$__rate_interval")),
                    "{{metric}}"), width=8),
        timeseries("Samples of a scrape", "What Prometheus takes from each exporter.", "short",
                   (lines(10, process("scrape_samples_scraped")), "{{cluster}} {{instance}}"), width=8),
        timeseries("Duration of a scrape", "How long Prometheus waits for the page.", "s",
                   (lines(10, process("scrape_duration_seconds")), "{{cluster}} {{instance}}"), width=8),
        timeseries("Slow calls without details", "Slow calls that are counted, but of which not all is "
                   "known, and those that the log has left out.", EACH_SECOND,
                   (total("reason", rate("slow_call_details_lost_total")), "without details: {{reason}}"),
                   (total("", rate("slow_calls_not_logged_total")), "not in the log"), width=8),
        timeseries("Sinks and log", "Events that sinks have taken, events that they never got, and lines "
                   "that found no room in the log.", EACH_SECOND,
                   (lines(10, total("instance, sink", rate("sink_events_total"))), "{{cluster}} {{instance}} {{sink}}"),
                   (lines(10, total("instance, sink, reason", rate("sink_events_lost_total"))),
                    "{{cluster}} {{instance}} {{sink}} lost: {{reason}}"),
                   (lines(10, total("instance", rate("log_lines_lost_total"))),
                    "{{cluster}} {{instance}} log, lines lost"), width=8),
    )


def _process():
    return Row(
        "The exporter's process",
        timeseries("CPU", "CPU time: 100% is one core.", "percentunit",
                   (lines(10, process("process_cpu_seconds_total", rated=True)), "{{cluster}} {{instance}}"), width=6),
        timeseries("Resident memory", "Memory that the exporter has.", "bytes",
                   (lines(10, process("process_resident_memory_bytes")), "{{cluster}} {{instance}}"), width=6),
        timeseries("Virtual memory", "Address space, and the most that it may take if that is limited.",
                   "bytes", (lines(10, process("process_virtual_memory_bytes")), "{{cluster}} {{instance}}"), width=6),
        timeseries("Open files", "Share of the open files that are allowed.", "percentunit",
                   (lines(10, f"({process('process_open_fds')})\n  / on ({NODE}) ({process('process_max_fds')})"),
                    "{{cluster}} {{instance}}"), width=3),
        timeseries("Threads", "Threads of the exporter.", "short",
                   (lines(10, process("process_threads")), "{{cluster}} {{instance}}"), width=3),
    )


def _what():
    return Row(
        "What runs where",
        table("Exporters", "Version, when it started, and when it last read a valid configuration.",
              [*node_columns(),
               Column("version", "version"),
               Column("revision", "revision"),
               Column("compiler", "compiler"),
               Column("libbpf", "libbpf"),
               Column("Value #B", "started", "dateTimeAsIso"),
               Column("Value #C", "configuration", mappings=VALID_MAPPING),
               Column("Value #D", "configuration read", "dateTimeAsIso")],
              *within("instance", top(200, own("build_info")),
                      total("instance", f"1000 * {process('process_start_time_seconds')}"),
                      total("instance", own("config_last_reload_successful")),
                      total("instance", f"{own('config_last_reload_success_timestamp_seconds')} * 1000")),
              sort="node", descending=False),
        table("Kernel features", "What each node's kernel offers, found by trying it: it decides how probes "
              "attach, and what that costs.",
              [*node_columns(),
               Column("feature", "feature"),
               Column("Value", "there", mappings=YES_MAPPING)],
              top(200, own("kernel_feature")), sort="node", descending=False),
    )


def make():
    return dashboard(
        HEALTH, "Exporter health",
        "Whether the exporters run, see everything, and what they cost.",
        [_state(), _probes(), _series(), _process(), _what()])
