#include "exporter/probes/host_irq/sources.h"

#include <cstddef>
#include <iterator>

#include "exporter/base/read_file.h"
#include "exporter/base/text/text.h"

namespace gpusnoop::probes {

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
