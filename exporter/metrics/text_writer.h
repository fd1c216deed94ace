// Families -> the formats that Prometheus reads: text 0.0.4 and OpenMetrics 1.0.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <prometheus/metric_family.h>

#include "exporter/series/family.h"

namespace gpusnoop::metrics {

enum class Format : std::uint8_t { text, openmetrics };

// What a client's Accept header likes best of what there is: text 0.0.4 where it likes none.
[[nodiscard]] Format negotiate(std::string_view accept);

// The Content-Type of a format.
[[nodiscard]] const char *content_type(Format format);

// By family and label set. Text 0.0.4 has none.
using Labels = std::vector<prometheus::ClientMetric::Label>;
using Exemplars = std::map<std::string, std::map<Labels, std::shared_ptr<const series::Exemplar>>>;

// Families without a label set are left out: a HELP line alone says nothing. In OpenMetrics, a
// counter's family is named without "_total", one whose name does not end so is of type unknown,
// and exemplars of more than 128 characters are left out.
[[nodiscard]] std::string write_families(Format format,
                                         const std::vector<prometheus::MetricFamily> &families,
                                         const Exemplars &exemplars = {});

}  // namespace gpusnoop::metrics
