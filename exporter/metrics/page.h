// Snapshots of families -> what a page is written from.
#pragma once

#include <string>
#include <vector>

#include <prometheus/metric_family.h>

#include "exporter/metrics/text_writer.h"
#include "exporter/series/family.h"

namespace gpusnoop::metrics {

// In prometheus-cpp's data model: values in base units, cumulative buckets.
prometheus::MetricFamily to_metric_family(const series::FamilySnapshot &snapshot);

// Snapshots of one name, one behind the other, become one family: a histogram whose label sets have
// different buckets is kept as several.
std::vector<prometheus::MetricFamily> to_metric_families(
    const std::vector<series::FamilySnapshot> &snapshots);

// The page of these: `snapshots` with their exemplars, and `more` behind them. A family is in the
// data model, which takes several times what its snapshot takes, only while it is written.
[[nodiscard]] std::string write_page(Format format,
                                     const std::vector<series::FamilySnapshot> &snapshots,
                                     const std::vector<prometheus::MetricFamily> &more);

// In text 0.0.4.
[[nodiscard]] inline std::string to_text(const std::vector<prometheus::MetricFamily> &families) {
    return write_families(Format::text, families);
}

// What the snapshots have of them.
Exemplars to_exemplars(const std::vector<series::FamilySnapshot> &snapshots);

}  // namespace gpusnoop::metrics
