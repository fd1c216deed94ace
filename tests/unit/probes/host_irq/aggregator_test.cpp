#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/host_irq/aggregator.h"
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

// Names of interrupts as labels.

TEST_CASE("interrupts of devices of one kind have one name") {
    CHECK(irq_source("nvidia\n") == "nvidia");
    CHECK(irq_source("nvme0q12\n") == "nvmeq");
    CHECK(irq_source("virtio1-req.0\n") == "virtio-req");
    CHECK(irq_source("mlx5_comp12@pci:0000:17:00.0\n") == "mlx_comp");
    CHECK(irq_source("eth0-TxRx-3\n") == "eth-TxRx");
    CHECK(irq_source("ahci[0000:00:1f.2]\n") == "ahci");
    CHECK(irq_source("ehci_hcd:usb1,ohci_hcd:usb2\n") == "ehci_hcd:usb");
}

TEST_CASE("an interrupt without a name is unknown, and any bytes make a label") {
    CHECK(irq_source("") == "unknown");
    CHECK(irq_source("\n") == "unknown");
    CHECK(irq_source("0123\n") == "unknown");
    CHECK(irq_source("\xff\n") == "\uFFFD");
    CHECK(irq_source(std::string(5000, 'a')).size() <= 32);
    IrqSources sources;
    CHECK(sources.of(0xffffffff) == "unknown");
}

TEST_CASE("softirqs have the names of /proc/softirqs") {
    CHECK(softirq_source(0) == "hi");
    CHECK(softirq_source(3) == "net_rx");
    CHECK(softirq_source(9) == "rcu");
    CHECK(softirq_source(10) == "unknown");
}
