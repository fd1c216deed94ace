#include "exporter/probes/host_irq/aggregator.h"

#include <array>
#include <vector>

#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/growing_counts.h"

namespace gpusnoop::probes {

namespace {

// By enum irq_kind.
constexpr std::array<std::string_view, IRQ_KINDS> kind_names = {"hard", "soft"};

}  // namespace

HostIrqFamilies make_host_irq_families(series::FamilySet &set) {
    const std::vector<series::Label> labels = {{"role"}, {"kind", true}, {"source"}};
    return {
        .seconds = set.counter("host_interrupt_seconds_total",
                               "Time in which interrupts ran on the CPU of a thread of a "
                               "followed process, in place of the thread: handlers of devices "
                               "(hard) and their deferred work (soft).",
                               labels, 1e9),
        .count = set.counter("host_interrupts_total",
                             "Interrupts that ran on the CPU of a thread of a followed process, "
                             "in place of the thread.",
                             labels),
    };
}

HostIrqAggregator::HostIrqAggregator(const SeriesSettings &settings)
    : CountingAggregator(settings, counts_grace) {}

void HostIrqAggregator::on_times(const irq_key &key, const counted_times &now,
                                 std::string_view source) {
    if (key.kind >= IRQ_KINDS || key.role >= FOLLOWED_ROLES) {
        return;
    }
    HostIrqProcess &process = processes_.of({key.tgid, key.since_ns});
    counted_times &counted = process.counted[{key.kind, key.source, key.role}];
    auto values = process.labels;
    values.emplace_back(followed_role_names.at(key.role));
    values.emplace_back(kind_names.at(key.kind));
    values.emplace_back(source);
    of_.seconds.add(of_.seconds.slot(process.owner, values),
                    grown(now.nanoseconds, counted.nanoseconds));
    of_.count.add(of_.count.slot(process.owner, values), grown(now.count, counted.count));
}

}  // namespace gpusnoop::probes
