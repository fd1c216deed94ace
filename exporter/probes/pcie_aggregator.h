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
#include "exporter/probes/family_maker.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

struct PcieFamilies {
    series::Family accesses, errors, all_ones, duration;

    std::vector<series::Family *> all();
    [[nodiscard]] std::vector<const series::Family *> all() const;
};

PcieFamilies make_pcie_families(const Budget &budget, bool pid_label);

// A read of four bytes that a device answered with ones alone, or that nobody answered: what a
// device that fell off the bus looks like.
[[nodiscard]] bool is_all_ones(const pcie_record &record);

class PcieAggregator {
public:
    PcieAggregator(const Budget &budget, bool pid_label, std::chrono::nanoseconds retention)
        : families_(make_pcie_families(budget, pid_label)), callers_(pid_label, retention) {}

    void on_record(const pcie_record &record);

    // Once a second: shows what is busy, where not all is shown.
    void rebalance();
    // Every so often: forgets the series of those who have been gone for the retention.
    void tidy(std::chrono::nanoseconds now);

    [[nodiscard]] std::vector<series::FamilySnapshot> report() const;
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const;

private:
    struct Slots {
        series::Slot accesses, errors, all_ones, duration;
    };
    using Key = std::tuple<series::Owner, std::uint64_t, std::uint32_t>;  // device, access

    Slots &slots_of(const pcie_record &record);

    PcieFamilies families_;
    Callers callers_;
    std::map<Key, Slots> slots_;
};

}  // namespace gpusnoop::probes
