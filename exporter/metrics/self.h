// Metrics about the exporter itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <prometheus/metric_family.h>

#include "exporter/ebpf/calibration.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/series/family.h"
#include "exporter/sinks/sinks.h"

namespace gpusnoop::metrics {

// State and account of each probe: gpusnoop_probe_*.
std::vector<prometheus::MetricFamily> probe_families(const std::vector<probes::Health> &all);

// gpusnoop_sink_events_total and gpusnoop_sink_events_lost_total.
std::vector<prometheus::MetricFamily> sink_families(const std::vector<sinks::Status> &sinks);

// gpusnoop_log_lines_lost_total.
prometheus::MetricFamily log_family(std::uint64_t lines_lost);

// The progress of discovery: gpusnoop_discovery_*.
struct DiscoveryState {
    double seconds_since_round = 0;
    std::uint64_t slow_files = 0;
    std::uint64_t unreadable_processes = 0;
    std::uint64_t released_processes = 0;
};
std::vector<prometheus::MetricFamily> discovery_families(const DiscoveryState &state);

// gpusnoop_kernel_feature.
prometheus::MetricFamily feature_family(const ebpf::Features &features);

// gpusnoop_probe_cost_seconds.
prometheus::MetricFamily cost_family(const ebpf::ProbeCosts &costs);

// gpusnoop_series and gpusnoop_series_folded_total, for the families on the same page.
std::vector<prometheus::MetricFamily> series_families(
    const std::vector<series::FamilySnapshot> &families,
    const std::map<std::string, std::uint64_t> &folded);

// The result of the last load of the configuration; the first was at the start.
struct LastReload {
    bool successful = true;
    double last_success = 0;        // seconds since 1970
    std::chrono::nanoseconds at{};  // by CLOCK_REALTIME
    std::string problem{};          // the mistakes, a line each; empty after success
};

// gpusnoop_config_last_reload_*.
std::vector<prometheus::MetricFamily> reload_families(const LastReload &reload);

}  // namespace gpusnoop::metrics
