// Snapshots of families -> the text that Prometheus reads.
#pragma once

#include <string>
#include <vector>

#include <prometheus/metric_family.h>

#include "exporter/series/family.h"

namespace gpusnoop::metrics {

// In prometheus-cpp's data model: values in base units, cumulative buckets.
prometheus::MetricFamily to_metric_family(const series::FamilySnapshot &snapshot);

// Snapshots of one name, one behind the other, become one family: a histogram whose label sets have
// different buckets is kept as several.
std::vector<prometheus::MetricFamily> to_metric_families(
    const std::vector<series::FamilySnapshot> &snapshots);

// Text exposition format 0.0.4. Families without a label set are left out: a HELP line alone says
// nothing.
std::string to_text(std::vector<prometheus::MetricFamily> families);

inline constexpr const char *text_content_type = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace gpusnoop::metrics
