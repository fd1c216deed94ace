#include "exporter/probes/host_irq/aggregator.h"

#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "exporter/base/read_file.h"
#include "exporter/base/text/text.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/process_counts.h"

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

namespace {

constexpr std::size_t max_name_bytes = 32;
constexpr std::size_t max_actions_bytes = 1024;

// In the order of the enum of include/linux/interrupt.h, as in /proc/softirqs.
constexpr std::string_view softirqs[] = {"hi",       "timer",   "net_tx", "net_rx",  "block",
                                         "irq_poll", "tasklet", "sched",  "hrtimer", "rcu"};

bool is_separator(char c) {
    return std::string_view("-_.:, \n").find(c) != std::string_view::npos;
}

}  // namespace

std::string irq_source(std::string_view actions) {
    // Of several handlers, the first one's; without the device's address.
    actions = actions.substr(0, actions.find_first_of(",@[\n"));
    std::string name;
    for (const char c : actions) {
        const bool is_second_separator =
            is_separator(c) && (name.empty() || is_separator(name.back()));
        if (!is_digit(c) && !is_second_separator) {
            name += c;
        }
    }
    while (!name.empty() && is_separator(name.back())) {
        name.pop_back();
    }
    return name.empty() ? "unknown" : to_valid_utf8(name, max_name_bytes);
}

std::string_view softirq_source(std::uint32_t vector) {
    return vector < std::size(softirqs) ? softirqs[vector] : "unknown";
}

const std::string &IrqSources::of(std::uint32_t number) {
    const auto found = names_.find(number);
    if (found != names_.end()) {
        return found->second;
    }
    const auto actions =
        read_start("/sys/kernel/irq/" + std::to_string(number) + "/actions", max_actions_bytes);
    return names_.emplace(number, irq_source(actions ? *actions : "")).first->second;
}

}  // namespace gpusnoop::probes
