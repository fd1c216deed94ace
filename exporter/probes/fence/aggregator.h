// The fence probe's records -> counters and histograms. No BPF here: records in, families out.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "bpf/fence.h"
#include "exporter/probes/frame/process_table.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct FenceFamilies {
    series::Family &events, &waits, &latencies;
};

FenceFamilies make_fence_families(series::FamilySet &set);

// An event and its process: "unknown" for a fence of an unknown process.
using OnFence = std::function<void(const fence_record &, const ProcessIdentity &)>;

class FenceAggregator {
public:
    explicit FenceAggregator(const SeriesSettings &settings);

    // Counts the event, or passes it to `trace`. False: not such a record, or a wrong size.
    bool on_record(std::span<const std::byte> bytes, const OnFence &trace = nullptr);

    [[nodiscard]] const series::FamilySet &families() const { return families_; }
    [[nodiscard]] ProcessTableBase &processes() { return processes_; }

private:
    void count(const fence_record &record, std::uint32_t event, const KnownProcess *process);

    bool pid_label_;
    series::FamilySet families_;
    FenceFamilies of_ = make_fence_families(families_);
    ProcessTable<> processes_;
};

}  // namespace gpusnoop::probes
