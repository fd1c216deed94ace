#include "exporter/probes/host_irq/aggregator.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/host_irq/probe.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

TEST_CASE("interrupts count by what came since the last reading, two of one name together") {
    HostIrqAggregator aggregator({.budget = [](std::string_view) { return 100U; },
                                  .retention = std::chrono::seconds(60),
                                  .look_up = [](ProcessIdentity &) { return true; }});
    const irq_key queue{.since_ns = 10,
                        .tgid = 7,
                        .kind = IRQ_HARD,
                        .role = FOLLOWED_GPU,
                        .source = 36,
                        .unused = 0};
    irq_key other_queue = queue;
    other_queue.source = 37;
    irq_key soft = queue;
    soft.kind = IRQ_SOFT;
    irq_key wrong = queue;
    wrong.kind = IRQ_KINDS;
    aggregator.on_times(queue, {500, 2}, "nvmeq");
    aggregator.on_times(queue, {400, 1}, "nvmeq");  // an earlier reading
    aggregator.on_times(other_queue, {50, 1}, "nvmeq");
    aggregator.on_times(soft, {7, 1}, "net_rx");
    aggregator.on_times(wrong, {9, 9}, "net_rx");
    aggregator.on_times(queue, {900, 3}, "nvmeq");
    std::map<std::string, std::uint64_t> values;
    for (const auto &snapshot : aggregator.families().snapshots()) {
        for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
            const auto &labels = *snapshot.labels[i];
            CHECK(labels[labels.size() - 3] == "gpu");
            values[snapshot.description->name + " " + labels[labels.size() - 2] + " " +
                   labels.back()] = snapshot.values[i];
        }
    }
    CHECK(values == std::map<std::string, std::uint64_t>{
                        {"gpusnoop_host_interrupt_seconds_total hard nvmeq", 950},
                        {"gpusnoop_host_interrupt_seconds_total soft net_rx", 7},
                        {"gpusnoop_host_interrupts_total hard nvmeq", 4},
                        {"gpusnoop_host_interrupts_total soft net_rx", 1}});
}

TEST_CASE("the settings of host_irq are read") {
    const auto parse = [](const std::string &text) {
        return config::parse(text, "c", setting_blocks());
    };
    CHECK_FALSE(parse("{}")->of<HostIrqConfig>().enabled);
    CHECK(parse("host: {irq: {enabled: true}}")->of<HostIrqConfig>().enabled);
    CHECK_FALSE(parse("host: {irq: {on: true}}"));
}
