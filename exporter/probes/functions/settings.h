// The block `functions:` of the configuration.
#pragma once

#include <chrono>
#include <cstdint>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

struct FunctionsConfig {
    bool enabled = true;
    ebpf::Attach attach = ebpf::Attach::automatic;
    // Per process; 0 is no limit.
    std::uint32_t max_calls_per_second = 2'000'000;
    // A power of two.
    std::uint32_t ring_bytes = 4U << 20U;
    std::chrono::milliseconds drain_interval{10};
    // The limit for one file, over all groups; a file with more matches is not traced.
    std::uint32_t max_functions = 4096;
    struct Report {
        std::chrono::milliseconds interval{0};  // 0: no report
        std::uint32_t rows = 10;                // of each of its two tables
        bool operator==(const Report &) const = default;
    } report;
    FunctionGroups groups = shipped_function_groups();
    struct SlowCalls {
        // How many /api/v1/slow_calls shows.
        std::uint32_t history = 100;
        // Lines in the log; 0: no line.
        std::uint32_t log_per_second = 10;
        // A power of two.
        std::uint32_t ring_bytes = 1U << 20U;
        bool operator==(const SlowCalls &) const = default;
    } slow_calls;
    bool operator==(const FunctionsConfig &) const = default;
};

void read_functions(config::Section functions, config::Config &config);

}  // namespace gpusnoop::probes
