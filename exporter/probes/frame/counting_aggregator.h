// What the aggregators of a BpfProbe have in common: the families, and the processes that own their
// series.
#pragma once

#include <chrono>

#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// `make_families` makes the probe's families in a set, and returns a struct of them. `Process` is
// what the probe keeps of a process.
template <auto make_families, typename Process = KnownProcess>
class CountingAggregator {
public:
    // A process stays known until `grace` after its end.
    explicit CountingAggregator(const SeriesSettings &settings, std::chrono::nanoseconds grace = {})
        : families_(settings.budget, settings.pid_label), processes_(families_, settings, grace) {}

    [[nodiscard]] const series::FamilySet &families() const { return families_; }
    [[nodiscard]] ProcessTableBase &processes() { return processes_; }

private:
    series::FamilySet families_;

protected:
    decltype(make_families(families_)) of_ = make_families(families_);
    ProcessTable<Process> processes_;
};

}  // namespace gpusnoop::probes
