// Stalls of followed processes that reclaim or compact memory -> counters. No BPF here: readings of
// the table in, families out.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "bpf/host_memory.h"
#include "exporter/probes/frame/processes/process_table.h"

namespace gpusnoop::probes {

struct HostMemoryFamilies {
    series::Family &seconds, &stalls;
};

HostMemoryFamilies make_host_memory_families(series::FamilySet &set);

struct HostMemoryProcess : KnownProcess {
    std::map<std::pair<std::uint16_t, std::uint16_t>, memory_stalls> counted;  // by kind and role
};

class HostMemoryAggregator
    : public CountingAggregator<make_host_memory_families, HostMemoryProcess> {
public:
    explicit HostMemoryAggregator(const SeriesSettings &settings);

    // Counts the difference from what was read of this key before.
    void on_stalls(const memory_key &key, const memory_stalls &now);
};

}  // namespace gpusnoop::probes
