// States of cgroups and of the node -> counters and gauges.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exporter/probes/host_pressure/cgroup_files.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct HostPressureFamilies {
    series::Family &pressure, &throttled, &periods, &throttled_periods, &idle;
};
HostPressureFamilies make_host_pressure_families(series::FamilySet &set);

struct HostPressureGauges {
    series::Family &memory, &gpu_node;
};
HostPressureGauges make_host_pressure_gauges(series::FamilySet &set);

class HostPressureAggregator {
public:
    HostPressureAggregator(const series::Budget &budget, std::chrono::nanoseconds retention)
        : families_(budget, false), retention_(retention) {}

    // The state of a cgroup in use. The labels are those of a process in it.
    void on_cgroup(const CgroupPlaces &places, const std::string &container,
                   const std::string &slurm_job, const CgroupState &state,
                   std::chrono::nanoseconds now);
    // Microseconds in each idle state, of all CPUs.
    void on_idle(const std::map<std::string, std::uint64_t> &states);

    // Forgets the series of cgroups that have not been in use for the retention.
    void tidy(std::chrono::nanoseconds now);

    // Memory of the cgroups that were in use at the last reading, which was at `since` or later.
    void add_memory(const HostPressureGauges &gauges, std::chrono::nanoseconds since) const;

    [[nodiscard]] const series::FamilySet &families() const { return families_; }

private:
    struct Cgroup {
        series::Owner owner = 0;
        series::LabelValues labels;
        std::chrono::nanoseconds seen{};
        NumaMemory memory;
        std::map<std::string, std::uint64_t> counted;  // by family and own labels
    };

    void count(Cgroup &cgroup, series::Family &family, const std::vector<std::string> &own,
               std::uint64_t now);

    series::FamilySet families_;
    HostPressureFamilies of_ = make_host_pressure_families(families_);
    std::chrono::nanoseconds retention_;
    std::map<CgroupPlaces, Cgroup> cgroups_;
    Cgroup node_;
    series::Owner owners_ = 0;
};

}  // namespace gpusnoop::probes
