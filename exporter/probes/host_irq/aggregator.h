// Interrupts in the place of followed processes -> counters. No BPF here: readings of the table in,
// families out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "bpf/host_irq.h"
#include "exporter/probes/frame/processes/process_table.h"

namespace gpusnoop::probes {

struct HostIrqFamilies {
    series::Family &seconds, &count;
};

HostIrqFamilies make_host_irq_families(series::FamilySet &set);

struct HostIrqProcess : KnownProcess {
    // By kind, source and role.
    std::map<std::tuple<std::uint16_t, std::uint32_t, std::uint16_t>, counted_times> counted;
};

class HostIrqAggregator : public CountingAggregator<make_host_irq_families, HostIrqProcess> {
public:
    explicit HostIrqAggregator(const SeriesSettings &settings);

    // `source` is its name. Counts the difference from what was read of this key before.
    void on_times(const irq_key &key, const counted_times &now, std::string_view source);
};

// The part of a device's interrupt's name that all interrupts of such devices have: without digits,
// queues and addresses, as in "mlx5_comp12@pci:0000:17:00.0" ("mlx_comp") and "virtio1-req.0"
// ("virtio-req"). `actions` are the untrusted names of its handlers. "unknown": it has none.
[[nodiscard]] std::string irq_source(std::string_view actions);

// "net_rx", "timer", ...; "unknown" for a vector that is not of include/linux/interrupt.h.
[[nodiscard]] std::string_view softirq_source(std::uint32_t vector);

// Of the machine's interrupts, by number: /sys/kernel/irq/NUMBER/actions. Remembers them, so a
// number that another device gets keeps the first one's name.
class IrqSources {
public:
    [[nodiscard]] const std::string &of(std::uint32_t number);

private:
    std::map<std::uint32_t, std::string> names_;
};

}  // namespace gpusnoop::probes
