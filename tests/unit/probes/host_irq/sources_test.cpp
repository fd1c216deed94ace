// Names of interrupts as labels.
#include "exporter/probes/host_irq/aggregator.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

using namespace gpusnoop::probes;

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
