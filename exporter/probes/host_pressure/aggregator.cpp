#include "exporter/probes/host_pressure/aggregator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "exporter/base/text/text.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

series::Description of_cgroup(std::string name, std::string help, std::vector<series::Label> own,
                              double divisor = 1, series::Type type = series::Type::counter) {
    std::vector<series::Label> labels = {{"cgroup"}, {"container_id"}, {"slurm_job_id"}};
    std::ranges::move(own, std::back_inserter(labels));
    return {.name = "gpusnoop_" + std::move(name),
            .help = std::move(help),
            .type = type,
            .labels = std::move(labels),
            .divisor = divisor};
}

constexpr double us_per_second = 1e6;

}  // namespace

HostPressureFamilies make_host_pressure_families(series::FamilySet &set) {
    return {
        .pressure = set.add(of_cgroup(
            "host_pressure_seconds_total",
            "Time in which some or all (full) tasks of a cgroup with followed processes stalled "
            "on a resource, from the pressure files of the kernel (PSI).",
            {{"resource", true}, {"kind", true}}, us_per_second)),
        .throttled = set.add(of_cgroup("host_cpu_throttled_seconds_total",
                                       "Time in which a cgroup was throttled by its CPU quota, "
                                       "summed over its CPUs.",
                                       {}, us_per_second)),
        .periods = set.add(
            of_cgroup("host_cpu_periods_total", "CPU quota periods in which the cgroup ran.", {})),
        .throttled_periods =
            set.add(of_cgroup("host_cpu_throttled_periods_total",
                              "CPU quota periods in which the cgroup was throttled.", {})),
        .idle = set.add({.name = "gpusnoop_host_cpu_idle_seconds_total",
                         .help = "Time that CPUs of the node spent in each idle state. Leaving a "
                                 "deep state takes longer.",
                         .labels = {{"state", true}},
                         .divisor = us_per_second}),
    };
}

HostPressureGauges make_host_pressure_gauges(series::FamilySet &set) {
    return {
        .memory = set.add(of_cgroup("host_memory_numa_bytes",
                                    "Memory of a cgroup with followed processes, by NUMA node.",
                                    {{"numa_node", true}, {"kind", true}}, 1, series::Type::gauge)),
        .gpu_node = set.add({.name = "gpusnoop_gpu_numa_node",
                             .help = "NUMA node that the GPU is attached to; absent if the "
                                     "kernel does not know it.",
                             .type = series::Type::gauge,
                             .labels = {{"gpu", true}}}),
    };
}

void HostPressureAggregator::count(Cgroup &cgroup, series::Family &family,
                                   const std::vector<std::string> &own, std::uint64_t now) {
    std::string key = family.description().name;
    auto values = cgroup.labels;
    for (const std::string &value : own) {
        key += " " + value;
        values.push_back(value);
    }
    std::uint64_t &counted = cgroup.counted[key];
    const std::uint64_t grown = now - std::min(now, counted);
    counted += grown;
    family.add(family.slot(cgroup.owner, values), grown);
}

void HostPressureAggregator::on_cgroup(const CgroupPlaces &places, const std::string &container,
                                       const std::string &slurm_job, const CgroupState &state,
                                       nanoseconds now) {
    const auto [found, is_new] = cgroups_.try_emplace(places);
    Cgroup &cgroup = found->second;
    if (is_new) {
        cgroup.owner = ++owners_;
        cgroup.labels = {to_valid_utf8(places.name, max_label_bytes), container, slurm_job};
    }
    cgroup.seen = now;
    cgroup.memory = state.memory;
    for (const auto &[resource, pressure] : state.pressure) {
        count(cgroup, of_.pressure, {resource, "some"}, pressure.some);
        if (pressure.full) {
            count(cgroup, of_.pressure, {resource, "full"}, *pressure.full);
        }
    }
    if (state.cpu) {
        count(cgroup, of_.throttled, {}, state.cpu->throttled_us);
        count(cgroup, of_.periods, {}, state.cpu->periods);
        count(cgroup, of_.throttled_periods, {}, state.cpu->throttled_periods);
    }
}

void HostPressureAggregator::on_idle(const std::map<std::string, std::uint64_t> &states) {
    for (const auto &[state, microseconds] : states) {
        count(node_, of_.idle, {state}, microseconds);
    }
}

void HostPressureAggregator::tidy(nanoseconds now) {
    for (auto entry = cgroups_.begin(); entry != cgroups_.end();) {
        if (entry->second.seen + retention_ > now) {
            ++entry;
            continue;
        }
        families_.remove(entry->second.owner);
        entry = cgroups_.erase(entry);
    }
    families_.rebalance();
}

void HostPressureAggregator::add_memory(const HostPressureGauges &gauges, nanoseconds since) const {
    for (const auto &[places, cgroup] : cgroups_) {
        if (cgroup.seen < since) {
            continue;
        }
        for (const auto &[place, bytes] : cgroup.memory) {
            auto values = cgroup.labels;
            values.push_back(std::to_string(place.second));
            values.push_back(place.first);
            gauges.memory.add(gauges.memory.slot(1, values), bytes);
        }
    }
}

}  // namespace gpusnoop::probes
