// Interrupts in the place of followed processes -> counters. No BPF here: readings of the table in,
// families out.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>

#include "bpf/host_irq.h"
#include "exporter/probes/frame/counting_aggregator.h"

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

}  // namespace gpusnoop::probes
