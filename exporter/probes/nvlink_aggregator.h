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
#include "exporter/series/family.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct NvlinkFamilies {
    series::Family &calls, &bytes, &duration;
};

NvlinkFamilies make_nvlink_families(series::FamilySet &set);

class NvlinkAggregator {
public:
    NvlinkAggregator(series::Budget budget, bool pid_label, std::chrono::nanoseconds retention)
        : family_set_(std::move(budget), pid_label), callers_(pid_label, retention) {}

    // Its op is one that there is.
    void on_record(const nvlink_record &record);

    // Every so often: forgets the series of those who have been gone for the retention.
    void tidy(std::chrono::nanoseconds now);

    [[nodiscard]] series::FamilySet &families() { return family_set_; }
    [[nodiscard]] const series::FamilySet &families() const { return family_set_; }

private:
    struct Slots {
        series::Slot calls, bytes, duration;
    };

    series::FamilySet family_set_;
    NvlinkFamilies families_ = make_nvlink_families(family_set_);
    Callers callers_;
    std::map<std::pair<series::Owner, std::uint32_t>, Slots> slots_;
};

}  // namespace gpusnoop::probes
