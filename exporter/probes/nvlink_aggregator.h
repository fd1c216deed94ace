// Counts calls of the NVIDIA driver's nvlink_* helpers.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bpf/nvlink.h"
#include "exporter/probes/callers.h"
#include "exporter/probes/family_maker.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

struct NvlinkFamilies {
    series::Family calls, bytes, duration;

    std::vector<series::Family *> all();
    [[nodiscard]] std::vector<const series::Family *> all() const;
};

NvlinkFamilies make_nvlink_families(const Budget &budget, bool pid_label);

class NvlinkAggregator {
public:
    NvlinkAggregator(const Budget &budget, bool pid_label, std::chrono::nanoseconds retention)
        : families_(make_nvlink_families(budget, pid_label)), callers_(pid_label, retention) {}

    // Its op is one that there is.
    void on_record(const nvlink_record &record);

    // Once a second: shows what is busy, where not all is shown.
    void rebalance();
    // Every so often: forgets the series of those who have been gone for the retention.
    void tidy(std::chrono::nanoseconds now);

    [[nodiscard]] std::vector<series::FamilySnapshot> report() const;
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const;

private:
    struct Slots {
        series::Slot calls, bytes, duration;
    };

    NvlinkFamilies families_;
    Callers callers_;
    std::map<std::pair<series::Owner, std::uint32_t>, Slots> slots_;
};

}  // namespace gpusnoop::probes
