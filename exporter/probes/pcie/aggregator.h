// Counts the accesses to the configuration space of PCI devices. No BPF here: records in, families
// out.
#pragma once

#include <cstdint>
#include <functional>
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

// For a trace.
using OnAccess = std::function<void(const pcie_record &, const ProcessIdentity &)>;

class PcieAggregator {
public:
    explicit PcieAggregator(const SeriesSettings &settings)
        : families_(settings.budget, settings.pid_label), processes_(families_, settings) {}

    // The first record of a thread has details of its process. With `trace`, the record is passed
    // on instead of counted.
    void on_record(const pcie_record &record, const process_details *details = nullptr,
                   const OnAccess &trace = nullptr);

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

    Slots &slots_of(const pcie_record &record, Process &process);

    series::FamilySet families_;
    PcieFamilies of_ = make_pcie_families(families_);
    ProcessTable<Process> processes_;
};

}  // namespace gpusnoop::probes
