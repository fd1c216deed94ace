#include "exporter/probes/host_life/aggregator.h"

#include "exporter/config/reader.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/frame/processes/followed_processes.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

// In milliseconds: a crash loop, a step of a job, a job.
const std::vector<std::uint64_t> lifetime_bounds = {10,        100,        1'000,      5'000,
                                                    15'000,    60'000,     300'000,    900'000,
                                                    3'600'000, 14'400'000, 86'400'000, 604'800'000};

constexpr std::uint64_t ns_per_ms = 1'000'000;

}  // namespace

HostLifeFamilies make_host_life_families(series::FamilySet &set) {
    return {
        .starts = set.counter("host_process_starts_total",
                              "Processes that the exporter began to follow: GPU processes at "
                              "their first CUDA call, workers at their start. The next program "
                              "after an exec counts as a new process.",
                              {{"role"}}),
        .exits = set.counter("host_process_exits_total",
                             "Ends of followed processes, by cause: the exit code, the signal "
                             "that ended them, oom_kill (out of memory), or exec (the process "
                             "became another program).",
                             {{"role"}, {"cause"}}),
        .lifetimes = set.histogram("host_process_lifetime_seconds",
                                   "Time from the start of a followed process to its end.",
                                   {{"role"}}, lifetime_bounds, 1e3),
        .signals = set.counter("host_signals_total",
                               "Signals sent to followed processes, including ignored ones, by "
                               "sender: the process itself, another process, or the kernel.",
                               {{"role"}, {"signal"}, {"sender", true}}),
    };
}

HostLifeAggregator::HostLifeAggregator(const SeriesSettings &settings)
    : CountingAggregator(settings, host_grace) {}

void HostLifeAggregator::on_follow(const follow_record &record) {
    HostLifeProcess &process = processes_.of({record.head.tgid, record.head.since_ns});
    auto values = process.labels;
    values.emplace_back(role_name(record.reasons));
    switch (record.head.type) {
        case FOLLOW_STARTED:
        case FOLLOW_PROMOTED:
            of_.starts.add(of_.starts.slot(process.owner, values), 1);
            break;
        case FOLLOW_EXECED:
            values.emplace_back(cause_exec);
            of_.exits.add(of_.exits.slot(process.owner, values), 1);
            break;
        default:
            break;  // an end comes with its cause
    }
}

bool HostLifeAggregator::on_record(std::span<const std::byte> bytes, nanoseconds to_realtime,
                                   const OnLife &trace) {
    if (const auto signal = ebpf::decode<life_signal_record>(bytes);
        signal && signal->head.type == LIFE_SIGNAL) {
        if (trace.signal) {
            trace.signal(*signal, processes_.of({signal->head.tgid, signal->head.since_ns}));
        }
        return true;
    }
    if (const auto late = ebpf::decode<life_last_call_record>(bytes);
        late && late->head.type == LIFE_LAST_CALL) {
        if (trace.late_call) {
            trace.late_call(*late);
        }
        history_.add(*late);
        return true;
    }
    const auto exit = ebpf::decode<life_exit_record>(bytes);
    if (!exit || exit->head.type != LIFE_EXIT) {
        return false;
    }
    if (trace.exit) {
        trace.exit(*exit, processes_.of({exit->head.tgid, exit->head.since_ns}));
    } else if (!trace.signal) {
        on_exit(*exit, to_realtime);
    }
    return true;
}

void HostLifeAggregator::on_exit(const life_exit_record &record, nanoseconds to_realtime) {
    HostLifeProcess &process = processes_.of({record.head.tgid, record.head.since_ns});
    auto values = process.labels;
    values.emplace_back(role_name(record.reasons));
    of_.lifetimes.observe(of_.lifetimes.slot(process.owner, values),
                          record.lifetime_ns / ns_per_ms);
    values.push_back(cause_of(record));
    of_.exits.add(of_.exits.slot(process.owner, values), 1);
    history_.add({.at = nanoseconds(static_cast<std::int64_t>(record.head.at_ns)) + to_realtime,
                  .record = record,
                  .process = process});
}

void HostLifeAggregator::on_signals(const Signals &signals) {
    for (const auto &[key, count] : signals) {
        HostLifeProcess &process = processes_.of({key.tgid, key.since_ns});
        std::uint64_t &counted = process.signals[{key.signal, key.sender, key.role}];
        if (count <= counted) {
            continue;
        }
        auto values = process.labels;
        values.emplace_back(followed_role_names.at(key.role));
        values.push_back(signal_name(key.signal));
        values.emplace_back(sender_name(key.sender));
        of_.signals.add(of_.signals.slot(process.owner, values), count - counted);
        counted = count;
    }
}

void read_host_life(config::Section &host, config::Config &config) {
    constexpr std::uint32_t most_kept = 1'000;
    HostLifeConfig value;
    config::Section life = host.section("life");
    life.boolean("enabled", value.enabled);
    life.integer("keep", value.keep, 0, most_kept);
    life.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
