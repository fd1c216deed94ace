// Metrics of the exporter's own process and build, under the names of all Prometheus client
// libraries.
#pragma once

#include <prometheus/metric_family.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"

namespace gpusnoop::metrics {

// The values in /proc for a process, in seconds, bytes and counts. A value that could not be read
// is absent.
struct ProcessSample {
    std::optional<double> cpu_seconds;  // user and system
    std::optional<double> threads;
    std::optional<double> virtual_bytes;
    std::optional<double> resident_bytes;
    std::optional<double> start_time;  // seconds since 1970
    std::optional<double> open_fds;
    std::optional<double> max_fds;            // no limit is 2^64 - 1, as in other programs
    std::optional<double> virtual_max_bytes;  // the same
};

// The part of a sample that /proc/<pid>/stat has; `boot_time` is /proc/stat's btime, seconds since
// 1970. Errors: the text is not such a file.
[[nodiscard]] Result<ProcessSample> parse_process_stat(std::string_view stat,
                                                       std::optional<double> boot_time);

// This process, from /proc/self.
[[nodiscard]] ProcessSample read_own_process();

// The process_* families of `sample`; an absent value has no family.
[[nodiscard]] std::vector<prometheus::MetricFamily> process_families(const ProcessSample &sample);

// gpusnoop_build_info: always 1, with the version and the toolchain as labels.
[[nodiscard]] prometheus::MetricFamily build_info(const std::string &libbpf_version);

}  // namespace gpusnoop::metrics
