// Counts the accesses to the configuration space of PCI devices. No BPF here: records in, families
// out.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "bpf/pcie.h"
#include "exporter/probes/frame/process_table.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct PcieFamilies {
    series::Family &accesses, &errors, &all_ones, &duration;
};

PcieFamilies make_pcie_families(series::FamilySet &set);

class PcieAggregator {
public:
    explicit PcieAggregator(const SeriesSettings &settings)
        : families_(settings.budget, settings.pid_label), processes_(families_, settings) {}

    void on_record(const pcie_record &record);

    [[nodiscard]] const series::FamilySet &families() const { return families_; }
    [[nodiscard]] ProcessTableBase &processes() { return processes_; }

private:
    struct Slots {
        series::Slot accesses, errors, all_ones, duration;
    };
    struct Process : KnownProcess {
        // By device and access.
        std::map<std::pair<std::uint64_t, std::uint32_t>, Slots> slots;
    };

    Slots &slots_of(const pcie_record &record);

    series::FamilySet families_;
    PcieFamilies of_ = make_pcie_families(families_);
    ProcessTable<Process> processes_;
};

}  // namespace gpusnoop::probes
