// The budgets of label sets that the configuration gives the families: none for a histogram that is
// not in `histograms`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

series::Budget budget_of(const config::Config &config);

// For families that are never counted in.
inline std::uint32_t one_for_each(std::string_view /*family*/) {
    return 1;
}

// The setting `histograms:` of the configuration: the histograms that are on the page.
// Most series of a program are buckets, and counters answer most questions. The default has what
// rules and most panels need, and the histograms of probes that are themselves off by default.
struct HistogramsConfig {
    std::vector<std::string> names = {
        "gpusnoop_cuda_memcpy_bandwidth_bytes_per_second",
        "gpusnoop_cuda_kernel_launch_duration_seconds",
        "gpusnoop_cuda_event_elapsed_seconds",
        "gpusnoop_function_duration_seconds",
        "gpusnoop_host_launch_gap_seconds",
        "gpusnoop_host_tcp_connect_duration_seconds",
        "gpusnoop_host_block_io_duration_seconds",
        "gpusnoop_syscall_duration_seconds",
        "gpusnoop_dma_fence_wait_duration_seconds",
        "gpusnoop_dma_fence_signal_latency_seconds",
    };
    bool operator==(const HistogramsConfig &) const = default;

    [[nodiscard]] bool has(std::string_view name) const;
};

// `all`: the full names of all histograms.
void read_histograms(config::Section &file, const std::vector<std::string> &all,
                     config::Config &config);

}  // namespace gpusnoop::probes
