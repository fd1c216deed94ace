#include "exporter/metrics/self.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "exporter/ebpf/maps/counters.h"

namespace gpusnoop::metrics {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

class Builder {
public:
    Builder(std::string_view name, std::string help, MetricType type) {
        family_.name = "gpusnoop_" + std::string(name);
        family_.help = std::move(help);
        family_.type = type;
    }

    Builder &add(std::vector<ClientMetric::Label> labels, double value) {
        ClientMetric metric;
        metric.label = std::move(labels);
        (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
        family_.metric.push_back(std::move(metric));
        return *this;
    }

    [[nodiscard]] MetricFamily take() { return std::move(family_); }

private:
    MetricFamily family_;
};

using Probes = std::vector<probes::Health>;

// A family with one number for each probe.
template <typename Value>
MetricFamily per_probe(const Probes &probes, std::string_view name, std::string help,
                       MetricType type, Value value) {
    Builder builder(name, std::move(help), type);
    for (const probes::Health &probe : probes) {
        builder.add({{"probe", probe.name}}, static_cast<double>(value(probe)));
    }
    return builder.take();
}

// The same, of the probes that can have it; of others, a number that is not 0 all the same.
template <typename Value>
MetricFamily per_counting_probe(const Probes &probes, bool probes::OwnCounts::*can_have,
                                std::string_view name, std::string help, MetricType type,
                                Value value) {
    Builder builder(name, std::move(help), type);
    for (const probes::Health &probe : probes) {
        if (probe.can_count.*can_have || value(probe) != 0) {
            builder.add({{"probe", probe.name}}, static_cast<double>(value(probe)));
        }
    }
    return builder.take();
}

// An unsupported probe, and one that has failed at its start, counts nothing.
Probes counting(Probes probes) {
    for (probes::Health &probe : probes) {
        if (!probe.is_up() && probe.account.entered == 0) {
            probe.can_count = {};
        }
    }
    return probes;
}

MetricFamily states(const Probes &probes) {
    Builder builder("probe_state",
                    "1 for the current state of each probe; other states have no series. "
                    "unsupported: the kernel or the node lacks what the probe needs; failed: an "
                    "error, shown on / and in the log; disabled: by the configuration.",
                    MetricType::Gauge);
    for (const probes::Health &probe : probes) {
        builder.add({{"probe", probe.name}, {"state", std::string(to_string(probe.state))}}, 1);
    }
    return builder.take();
}

MetricFamily lost_events(const Probes &probes) {
    Builder builder(
        "probe_events_lost_total",
        "Calls that were entered and have no event, by reason. ring_full: the exporter was too "
        "slow; throttled: the process exceeded its rate limit; skipped: runs of BPF programs "
        "that the kernel skipped; forgotten: memory of a process beyond the limits of what is "
        "tracked.",
        MetricType::Counter);
    for (const probes::Health &probe : probes) {
        const auto add = [&](bool can_have, std::string_view reason, std::uint64_t count) {
            if (can_have || count > 0) {
                builder.add({{"probe", probe.name}, {"reason", std::string(reason)}},
                            static_cast<double>(count));
            }
        };
        const probes::OwnCounts &can_count = probe.can_count;
        for (std::uint32_t reason = 0; reason < LOST_REASON_COUNT; reason++) {
            add((can_count.lost >> reason & 1U) != 0, ebpf::lost_reason_names.at(reason),
                probe.account.lost[reason]);
        }
        add(false, "undecodable", probe.undecodable);  // both sides are of one build
        add(can_count.entries, "skipped", probe.runs.skipped);
        add(can_count.forgotten, "forgotten", probe.forgotten);
    }
    return builder.take();
}

MetricFamily attach_failures(const Probes &probes) {
    Builder builder(
        "probe_attach_failures_total",
        "Libraries that the probe could not attach to, by reason, and missing pins of an earlier "
        "exporter (pin); the log has the names.",
        MetricType::Counter);
    for (const probes::Health &probe : probes) {
        auto failures = probe.attach_failures;
        for (const std::string_view reason : probe.can_count.attach_failures) {
            failures.try_emplace(std::string(reason), 0);
        }
        for (const auto &[reason, count] : failures) {
            builder.add({{"probe", probe.name}, {"reason", reason}}, static_cast<double>(count));
        }
    }
    return builder.take();
}

MetricFamily deaths(const Probes &probes) {
    Builder builder("process_deaths_in_traced_calls_total",
                    "Processes that a signal ended while the thread that received it was in a "
                    "traced call: because of their own faults, or because of the probes.",
                    MetricType::Counter);
    for (const probes::Health &probe : probes) {
        if (!probe.can_count.deaths) {
            continue;  // its calls run no user code
        }
        for (std::size_t signal = 0; signal < DEATH_SIGNAL_COUNT; signal++) {
            builder.add(
                {{"probe", probe.name}, {"signal", std::string(ebpf::death_signal_names[signal])}},
                static_cast<double>(probe.account.deaths[signal]));
        }
    }
    return builder.take();
}

// Adds the families about slow calls.
void add_slow_calls(const Probes &probes, std::vector<MetricFamily> &families) {
    Builder lost("slow_call_details_lost_total",
                 "Slow calls that were counted without all details. ring_full: the record did "
                 "not fit, so arguments and stack are missing; busy: too many stacks to resolve, "
                 "so the stack is missing.",
                 MetricType::Counter);
    Builder not_logged("slow_calls_not_logged_total",
                       "Slow calls left out of the log because of log_per_second.",
                       MetricType::Counter);
    for (const probes::Health &probe : probes) {
        if (!probe.lost_details) {
            continue;
        }
        for (const auto &[reason, count] : probe.lost_details->slow) {
            lost.add({{"reason", reason}}, static_cast<double>(count));
        }
        not_logged.add({}, static_cast<double>(probe.lost_details->slow_not_logged));
    }
    families.push_back(lost.take());
    families.push_back(not_logged.take());
}

// Adds the families about runs of BPF programs. The kernel counts these only if its statistics are
// on; zeros would be wrong.
void add_runs(const Probes &probes, std::vector<MetricFamily> &families) {
    Builder runs("probe_runs_total",
                 "Runs of the probe's BPF programs (with kernel.bpf_stats_enabled).",
                 MetricType::Counter);
    Builder seconds("probe_run_seconds_total",
                    "Time in the probe's BPF programs (with kernel.bpf_stats_enabled).",
                    MetricType::Counter);
    for (const probes::Health &probe : probes) {
        if (probe.runs.count > 0) {
            runs.add({{"probe", probe.name}}, static_cast<double>(probe.runs.count));
            seconds.add({{"probe", probe.name}}, static_cast<double>(probe.runs.nanoseconds) / 1e9);
        }
    }
    families.push_back(runs.take());
    families.push_back(seconds.take());
}

}  // namespace

std::vector<MetricFamily> sink_families(const std::vector<sinks::Status> &sinks) {
    Builder sent("sink_events_total", "Events delivered to the sink's target.",
                 MetricType::Counter);
    Builder lost("sink_events_lost_total",
                 "Events not delivered to the sink's target. queue_full: the target was too slow "
                 "or missing; stopped: they were still queued when the exporter stopped.",
                 MetricType::Counter);
    for (const sinks::Status &sink : sinks) {
        sent.add({{"sink", sink.name}}, static_cast<double>(sink.sent));
        for (const auto &[reason, count] : sink.lost) {
            lost.add({{"sink", sink.name}, {"reason", reason}}, static_cast<double>(count));
        }
    }
    std::vector<MetricFamily> families;
    families.push_back(sent.take());
    families.push_back(lost.take());
    return families;
}

std::vector<MetricFamily> probe_families(const std::vector<probes::Health> &all) {
    using probes::Health;
    using probes::OwnCounts;
    // Of a disabled probe, only its state is known.
    Probes enabled;
    std::ranges::copy_if(all, std::back_inserter(enabled), [](const Health &probe) {
        return probe.state != probes::ProbeState::disabled;
    });
    const Probes probes = counting(std::move(enabled));
    constexpr auto counter = MetricType::Counter;
    constexpr auto gauge = MetricType::Gauge;
    std::vector<MetricFamily> families = {
        states(all),
        per_probe(probes, "probe_up",
                  "1 if the enabled probe is up; probe_state and the page at / have the reason "
                  "if it is not.",
                  gauge, [](const Health &probe) { return probe.is_up() ? 1 : 0; }),
        per_probe(probes, "probe_attached_functions",
                  "Functions that the probe is currently attached to, in all library files.", gauge,
                  [](const Health &probe) { return probe.attached_functions; }),
        attach_failures(probes),
        per_counting_probe(probes, &OwnCounts::entries, "probe_entries_total",
                           "Calls that were entered: events + in flight + stale + lost (without "
                           "undecodable, forgotten and skipped).",
                           counter, [](const Health &probe) { return probe.account.entered; }),
        per_counting_probe(probes, &OwnCounts::entries, "probe_events_total",
                           "Calls whose event was sent: when they returned, or at their entry if "
                           "only the entry is traced.",
                           counter, [](const Health &probe) { return probe.account.events; }),
        per_counting_probe(probes, &OwnCounts::in_flight, "probe_in_flight_calls",
                           "Calls that have not returned yet.", gauge,
                           [](const Health &probe) { return ebpf::in_flight(probe.account); }),
        per_counting_probe(probes, &OwnCounts::stale, "probe_stale_calls_total",
                           "Calls that never returned because of longjmp, an exception, or the "
                           "end of their thread or program.",
                           counter, [](const Health &probe) { return probe.account.stale; }),
        lost_events(probes),
        per_counting_probe(probes, &OwnCounts::nested, "probe_nested_calls_total",
                           "Calls inside a traced call of the same thread; they are part of it "
                           "and not counted as entries.",
                           counter, [](const Health &probe) { return probe.account.nested; }),
        per_counting_probe(probes, &OwnCounts::unmatched, "probe_unmatched_returns_total",
                           "Returns without an entry: in a forked child, or from a call older "
                           "than the probe.",
                           counter, [](const Health &probe) { return probe.account.unmatched; }),
    };
    families.push_back(deaths(probes));
    add_slow_calls(probes, families);
    add_runs(probes, families);
    return families;
}

MetricFamily log_family(std::uint64_t lines_lost) {
    Builder builder("log_lines_lost_total",
                    "Lines of the exporter's log that could not be written: the disk is full, or "
                    "nothing reads the pipe.",
                    MetricType::Counter);
    return builder.add({}, static_cast<double>(lines_lost)).take();
}

std::vector<MetricFamily> discovery_families(const DiscoveryState &state) {
    Builder age("discovery_last_round_age_seconds",
                "Time since discovery completed its last round, a second at most normally. "
                "Above 10 s, new libraries are not found.",
                MetricType::Gauge);
    Builder slow("discovery_slow_files",
                 "Files in use that are not attached to because their file system did not "
                 "answer; they are retried at each rescan.",
                 MetricType::Gauge);
    Builder unreadable(
        "discovery_unreadable_processes",
        "Processes whose mappings were not listed within 100 ms because they keep them locked. "
        "They are retried; until then, libraries that only they use are not attached to.",
        MetricType::Gauge);
    Builder released(
        "discovery_released_processes",
        "Processes released for a checkpoint (POST /-/release): the libraries that they "
        "map are not traced in any process until the release ends.",
        MetricType::Gauge);
    return {age.add({}, state.seconds_since_round).take(),
            slow.add({}, static_cast<double>(state.slow_files)).take(),
            unreadable.add({}, static_cast<double>(state.unreadable_processes)).take(),
            released.add({}, static_cast<double>(state.released_processes)).take()};
}

MetricFamily feature_family(const ebpf::Features &features) {
    Builder builder("kernel_feature",
                    "1 if the kernel offers the feature to the exporter, as found by trying it.",
                    MetricType::Gauge);
    for (const ebpf::Feature &feature : features.list) {
        builder.add({{"feature", feature.name}}, feature.available ? 1 : 0);
    }
    return builder.take();
}

MetricFamily cost_family(const ebpf::ProbeCosts &costs) {
    Builder builder("probe_cost_seconds",
                    "Cost of a probe on a function for one call on this machine: the lowest "
                    "value measured at startup or later. entry: a probe on the entry; "
                    "stepped_entry: the same if the kernel cannot emulate the instruction; "
                    "return: a return probe; record: additional work for a recorded call; stack: "
                    "reading its stack.",
                    MetricType::Gauge);
    for (const auto &[mode, cost] : costs) {
        for (const auto &[part, nanoseconds] : {std::pair("entry", cost.entry),
                                                {"stepped_entry", cost.stepped_entry},
                                                {"return", cost.ending},
                                                {"record", cost.record},
                                                {"stack", cost.stack}}) {
            builder.add({{"mode", std::string(ebpf::to_string(mode))}, {"part", part}},
                        static_cast<double>(nanoseconds) / 1e9);
        }
    }
    return builder.take();
}

// Of a family without label sets there is nothing to say: it is not on the page.
std::vector<MetricFamily> series_families(const std::vector<series::FamilySnapshot> &families,
                                          const std::map<std::string, std::uint64_t> &folded) {
    Builder series("series", "Current number of label sets in each metric family on the page.",
                   MetricType::Gauge);
    std::map<std::string, std::size_t> sizes;
    for (const series::FamilySnapshot &family : families) {
        sizes[family.description->name] += family.labels.size();
    }
    for (const auto &[metric, size] : sizes) {
        if (size > 0) {
            series.add({{"metric", metric}}, static_cast<double>(size));
        }
    }
    Builder folds("series_folded_total",
                  "Label sets that exceeded the budget of the family and were counted as "
                  "\"other\"; only for families in which this has happened.",
                  MetricType::Counter);
    for (const auto &[metric, count] : folded) {
        if (count > 0) {
            folds.add({{"metric", metric}}, static_cast<double>(count));
        }
    }
    return {series.take(), folds.take()};
}

std::vector<MetricFamily> reload_families(const LastReload &reload) {
    Builder successful("config_last_reload_successful",
                       "1 if the configuration was valid when it was last read, at startup or at "
                       "a reload; otherwise the previous one stays in effect, and the log has "
                       "the reason.",
                       MetricType::Gauge);
    Builder timestamp("config_last_reload_success_timestamp_seconds",
                      "Unix time when a valid configuration was last read.", MetricType::Gauge);
    successful.add({}, reload.successful ? 1 : 0);
    timestamp.add({}, reload.last_success);
    return {successful.take(), timestamp.take()};
}

}  // namespace gpusnoop::metrics
