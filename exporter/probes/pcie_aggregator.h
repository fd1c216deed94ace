// Counts the accesses to the configuration space of PCI devices.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bpf/pcie.h"
#include "exporter/probes/callers.h"
#include "exporter/series/family.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct PcieFamilies {
    series::Family &accesses, &errors, &all_ones, &duration;
};

PcieFamilies make_pcie_families(series::FamilySet &set);

// A read of four bytes that a device answered with ones alone, or that nobody answered: what a
// device that fell off the bus looks like.
[[nodiscard]] bool is_all_ones(const pcie_record &record);

class PcieAggregator {
public:
    PcieAggregator(series::Budget budget, bool pid_label, std::chrono::nanoseconds retention)
        : family_set_(std::move(budget), pid_label), callers_(pid_label, retention) {}

    void on_record(const pcie_record &record);

    // Every so often: forgets the series of those who have been gone for the retention.
    void tidy(std::chrono::nanoseconds now);

    [[nodiscard]] series::FamilySet &families() { return family_set_; }
    [[nodiscard]] const series::FamilySet &families() const { return family_set_; }

private:
    struct Slots {
        series::Slot accesses, errors, all_ones, duration;
    };
    using Key = std::tuple<series::Owner, std::uint64_t, std::uint32_t>;  // device, access

    Slots &slots_of(const pcie_record &record);

    series::FamilySet family_set_;
    PcieFamilies families_ = make_pcie_families(family_set_);
    Callers callers_;
    std::map<Key, Slots> slots_;
};

}  // namespace gpusnoop::probes
